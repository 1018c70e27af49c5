#include "cli/ranks/exchange_rates.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/index.h"
#include "base/sizes.h"
#include "tensor/cut.h"

namespace spillway {
namespace {

constexpr int64_t kExchangedElems = 16 * kMiB / 4;
constexpr int kExchanges = 9;

// Returns the seconds that all ranks have taken: the median of several times, each that of the slowest.
double seconds_of(Peers& peers, const std::function<void()>& collective) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < kExchanges; ++i) {
    (void)peers.exchange("");  // so that they begin together
    const Clock::time_point start = Clock::now();
    collective();
    peers.finish();
    const std::chrono::duration<double> taken = Clock::now() - start;
    double slowest = 0;
    for (const std::string& one : peers.exchange(std::to_string(taken.count())))
      slowest = std::max(slowest, std::stod(one));
    times.push_back(slowest);
  }
  std::nth_element(times.begin(), times.begin() + kExchanges / 2, times.end());
  return times[kExchanges / 2];
}

}  // namespace

double ExchangeRates::slower() const { return std::min(fold_bytes_per_second, gather_bytes_per_second); }

ExchangeRates measure_exchange(Peers& peers) {
  const Cut cut = cut_of(kExchangedElems, peers.size());
  std::vector<float> whole = make_vector<float>(kExchangedElems), part = make_vector<float>(cut.part_elems);
  // Every rank sends its part to each other one, or, of its contribution, each other one's part.
  const double sent = static_cast<double>(peers.size() - 1) * static_cast<double>(kExchangedElems * 4) / peers.size();
  const double fold = seconds_of(peers, [&] { peers.fold(whole, part, cut, {.contributors = peers.size()}); });
  const double gather = seconds_of(
      peers, [&] { peers.gather(std::as_bytes(std::span(part)), std::as_writable_bytes(std::span(whole)), cut, 4); });
  return {.ranks = peers.size(), .fold_bytes_per_second = sent / fold, .gather_bytes_per_second = sent / gather};
}

}  // namespace spillway
