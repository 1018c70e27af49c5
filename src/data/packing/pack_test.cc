#include "data/packing/pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/random.h"
#include "data/packing/best_fit.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::data;
using nlohmann::json;

namespace {

const std::filesystem::path kPackingGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/packing.json";

// Token ids count up through all rows, so that a list of them names rows and places.
RowTable packable_rows(const std::vector<int>& lengths) {
  std::vector<Row> rows;
  int32_t id = 0;
  for (const int length : lengths) {
    Row& row = rows.emplace_back();
    for (int i = 0; i < length; ++i) row.input_ids.push_back(id++);
    row.labels = row.input_ids;
  }
  return RowTable(rows);
}

// [line][sequence]{first token, length}: what trl writes about a packed data set, in the golden file's form.
json sequences_of(const Lines& lines) {
  json result = json::array();
  for (int64_t i = 0; i < lines.size(); ++i) {
    json line = json::array();
    for (const Piece& piece : lines.line(i)) {
      const json before = line.empty() ? json() : line.back();
      if (!piece.continues) {
        line.push_back({piece.begin, piece.length});
      } else {
        REQUIRE(before[0].get<int64_t>() + before[1].get<int64_t>() == piece.begin);
        line.back()[1] = before[1].get<int64_t>() + piece.length;
      }
    }
    result.push_back(line);
  }
  return result;
}

PackingStrategy strategy_of(const std::string& name) {
  return name == "bfd"         ? PackingStrategy::kBfd
         : name == "bfd_split" ? PackingStrategy::kBfdSplit
                               : PackingStrategy::kWrapped;
}

std::vector<int> random_lengths(int count, uint32_t most, uint64_t seed) {
  RandomStream random(seed, 0);
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back(1 + static_cast<int>(random.below(most)));
  return lengths;
}

}  // namespace

TEST_CASE("packed rows are TRL's: membership, order and ties, within map batches and over all rows") {
  const json golden = json::parse(read_file(kPackingGolden, int64_t{16} << 20));
  int compared = 0;
  for (const json& c : golden["cases"]) {
    CAPTURE(c["name"].get<std::string>());
    const RowTable rows = packable_rows(c["lengths"]);
    for (const auto& [strategy, packed] : c["packed"].items()) {
      CAPTURE(strategy);
      const Lines lines =
          pack(rows, {.strategy = strategy_of(strategy), .capacity = c["max_length"], .scope_rows = c["batch_size"]});
      CHECK(sequences_of(lines) == packed);
      ++compared;
    }
  }
  CHECK(compared >= 30);
}

TEST_CASE("packing all rows at once needs no more lines than packing map batches") {
  const RowTable rows = packable_rows(random_lengths(5000, 90, 7));
  const int64_t at_once = pack(rows, {.capacity = 128}).size();
  CHECK(at_once <= pack(rows, {.capacity = 128, .scope_rows = 1000}).size());
  int64_t tokens = 0;
  for (int64_t i = 0; i < rows.size(); ++i) tokens += rows.length(i);
  CHECK(at_once >= (tokens + 127) / 128);
}

TEST_CASE("first fit has each row once, in order, and never more lines than first fit decreasing") {
  for (const uint32_t most : {7u, 40u, 100u}) {
    const std::vector<int> lengths = random_lengths(400, most, most);
    const Lines lines = pack(packable_rows(lengths), {.strategy = PackingStrategy::kFirstFit, .capacity = 100});
    // First fit decreasing, the long way.
    std::vector<int> sorted = lengths, rooms;
    std::sort(sorted.rbegin(), sorted.rend());
    for (const int length : sorted) {
      auto room = std::find_if(rooms.begin(), rooms.end(), [&](int free) { return free >= length; });
      if (room == rooms.end()) room = rooms.insert(rooms.end(), 100);
      *room -= length;
    }
    CHECK(lines.size() == std::ssize(rooms));
    std::set<int64_t> begins;
    int64_t first_before = -1;
    for (int64_t i = 0; i < lines.size(); ++i) {
      CHECK(count_tokens(lines.line(i)) <= 100);
      CHECK(lines.line(i)[0].begin > first_before);
      first_before = lines.line(i)[0].begin;
      int64_t before = -1;
      for (const Piece& piece : lines.line(i)) {
        CHECK(piece.begin > before);
        before = piece.begin;
        begins.insert(piece.begin);
      }
    }
    CHECK(begins.size() == lengths.size());
  }
}

TEST_CASE("first fit has axolotl's lines where the longest rows come first, however few rows a line may have") {
  const json golden = json::parse(read_file(kPackingGolden, int64_t{16} << 20));
  REQUIRE(golden["binned"].size() >= 5);
  for (const json& c : golden["binned"]) {
    CAPTURE(c["name"].get<std::string>());
    const RowTable rows = packable_rows(c["lengths"]);
    const Lines lines =
        pack(rows, {.strategy = PackingStrategy::kFirstFit, .capacity = c["capacity"], .line_rows = c["bin_size"]});
    std::map<int64_t, int> row_of;  // by its first token
    for (int row = 0; row < rows.size(); ++row) row_of[rows.row(row).begin] = row;
    std::vector<std::vector<int>> bins;
    for (int64_t i = 0; i < lines.size(); ++i) {
      std::vector<int>& bin = bins.emplace_back();
      for (const Piece& piece : lines.line(i)) bin.push_back(row_of.at(piece.begin));
      std::sort(bin.begin(), bin.end());
    }
    std::sort(bins.begin(), bins.end());
    CHECK(json(bins) == c["bins"]);
  }
}

TEST_CASE("sequential packing ends a line where the next row has no room") {
  const Lines lines =
      pack(packable_rows({4, 4, 5, 10, 1, 2}), {.strategy = PackingStrategy::kSequential, .capacity = 10});
  CHECK(sequences_of(lines) == json::parse("[[[0, 4], [4, 4]], [[8, 5]], [[13, 10]], [[23, 1], [24, 2]]]"));
}

TEST_CASE("a set of integers finds the next one at every size of its tree") {
  for (const int64_t size : {1, 64, 65, 5000, 300000}) {
    NextSet set(size);
    std::set<int64_t> expected;
    RandomStream random(static_cast<uint64_t>(size), 1);
    for (int i = 0; i < 2000; ++i) {
      const auto value = static_cast<int64_t>(random.below(static_cast<uint32_t>(size)));
      if (random.below(3) == 0) {
        set.erase(value);
        expected.erase(value);
      } else {
        set.insert(value);
        expected.insert(value);
      }
      const auto from = static_cast<int64_t>(random.below(static_cast<uint32_t>(size)));
      const auto found = expected.lower_bound(from);
      CHECK(set.next(from) == (found == expected.end() ? -1 : *found));
    }
    CHECK(set.next(size) == -1);
  }
}

TEST_CASE("packing says how far it is") {
  int64_t last = 0;
  const RowTable rows = packable_rows(random_lengths(2500, 20, 3));
  (void)pack(rows, {.capacity = 64, .scope_rows = 1000, .progress = [&](int64_t done, int64_t of) {
                      CHECK(done > last);
                      CHECK(of == 2500);
                      last = done;
                    }});
  CHECK(last == 2500);
}
