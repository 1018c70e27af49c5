#include "dist/testing/peers_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "base/index.h"

namespace spillway {
namespace {

// Returns numbers of many magnitudes, whose sums depend on the order.
std::vector<float> numbers_of(int64_t count, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<float> result(static_cast<size_t>(count));
  for (float& one : result)
    one = std::ldexp(static_cast<float>(random() % 2001) - 1000, static_cast<int>(random() % 15));
  return result;
}

template <typename T>
std::span<const T> part_of(const std::vector<T>& whole, const Cut& cut, int rank, int64_t width = 1) {
  return std::span(whole).subspan(static_cast<size_t>(cut.begin(rank) * width),
                                  static_cast<size_t>(cut.count(rank) * width));
}

void check_fold(Peers& peers, const Cut& cut, const FoldOrder& order) {
  const auto [contributors, together] = order;
  const int64_t elems = cut.elems;
  std::vector<float> expected = numbers_of(elems, 99), part(static_cast<size_t>(cut.part_elems), -7);
  const std::span<const float> before = part_of(expected, cut, peers.rank());
  std::copy(before.begin(), before.end(), part.begin());
  for (int first = 0; first < contributors; first += together) {
    std::vector<float> addend = numbers_of(elems, first);
    for (int rank = first + 1; rank < std::min(first + together, contributors); ++rank) {
      const std::vector<float> whole = numbers_of(elems, rank);
      for (size_t i = 0; i < addend.size(); ++i) addend[i] = addend[i] + whole[i];
    }
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] + addend[i];
  }
  // The values of who does not contribute are not read.
  const std::vector<float> mine = peers.rank() < contributors ? numbers_of(elems, peers.rank())
                                                              : std::vector<float>(static_cast<size_t>(elems), NAN);
  peers.fold(mine, part, cut, order);
  const std::span<const float> after = part_of(expected, cut, peers.rank());
  if (!std::equal(after.begin(), after.end(), part.begin()) ||
      std::count(part.begin() + static_cast<int64_t>(after.size()), part.end(), -7.0F) !=
          static_cast<int64_t>(part.size() - after.size()))
    throw std::runtime_error(
        fmt::format("fold of {} over {} from {} by {} differs", elems, cut.ranks, contributors, together));
}

void check_gather(Peers& peers, const Cut& cut, int64_t elem_bytes) {
  const int64_t elems = cut.elems;
  std::vector<std::byte> expected(static_cast<size_t>(elems * elem_bytes)), whole(expected.size());
  std::mt19937 random(5);
  for (std::byte& one : expected) one = static_cast<std::byte>(random());
  const std::span<const std::byte> mine = part_of(expected, cut, peers.rank(), elem_bytes);
  std::vector<std::byte> part(static_cast<size_t>(cut.part_elems * elem_bytes), std::byte{0xEE});
  std::copy(mine.begin(), mine.end(), part.begin());
  peers.gather(part, whole, cut, elem_bytes);
  if (whole != expected) throw std::runtime_error(fmt::format("gather of {} x {} bytes differs", elems, elem_bytes));
}

void check_all_to_all(Peers& peers, int ranks, int64_t piece) {
  const int group = peers.rank() - peers.rank() % ranks;
  // Returns what a rank gives to the ranks of its group.
  const auto given_by = [&](int rank) {
    std::vector<std::byte> bytes(static_cast<size_t>(piece * ranks));
    std::mt19937 random(static_cast<uint32_t>(rank + 1));
    for (std::byte& one : bytes) one = static_cast<std::byte>(random());
    return bytes;
  };
  std::vector<std::byte> expected, got(static_cast<size_t>(piece * ranks));
  for (int i = group; i < group + ranks; ++i) {
    const std::vector<std::byte> given = given_by(i);
    const auto mine = given.begin() + (peers.rank() - group) * piece;
    expected.insert(expected.end(), mine, mine + piece);
  }
  peers.all_to_all(given_by(peers.rank()), got, ranks);
  if (got != expected) throw std::runtime_error(fmt::format("all-to-all of {} x {} bytes differs", ranks, piece));
}

void check_exchange(Peers& peers, size_t length) {
  const auto message = [&](int rank) {
    return std::string(static_cast<size_t>(rank) * length, static_cast<char>('a' + rank % 26));
  };
  const std::span<const std::string> all = peers.exchange(message(peers.rank()));
  for (int rank = 0; rank < peers.size(); ++rank) {
    if (static_cast<int>(all.size()) != peers.size() || nth(all, rank) != message(rank))
      throw std::runtime_error(fmt::format("message of rank {} of {} bytes differs", rank, message(rank).size()));
  }
}

}  // namespace

void check_peers(Peers& peers) {
  for (int ranks = 1; ranks <= peers.size(); ++ranks) {
    if (peers.size() % ranks != 0) continue;
    for (const int64_t elems : {0, 1, 5000, 4096 * 4, 4096 * 9 + 17}) {
      for (int together = 1; together <= peers.size(); ++together) {
        if (peers.size() % together != 0) continue;
        for (int contributors = 0; contributors <= peers.size(); ++contributors)
          check_fold(peers, cut_of(elems, ranks), {contributors, together});
      }
      for (const int64_t elem_bytes : {1, 2, 4}) {
        check_gather(peers, cut_of(elems, ranks), elem_bytes);
        check_gather(peers, cut_of(elems, ranks, 16), elem_bytes);
      }
    }
    for (const int together : {1, peers.size()})
      check_fold(peers, cut_of(600001, ranks), {peers.size(), together});  // several pieces
    check_gather(peers, cut_of(600001, ranks), 4);
    for (const int64_t piece : {0, 1, 4096, 1200007}) check_all_to_all(peers, ranks, piece);
  }
  for (const size_t length : {0, 1, 500, 1016, 1017, 5000, 600000}) check_exchange(peers, length);
}

}  // namespace spillway
