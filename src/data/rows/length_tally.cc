#include "data/rows/length_tally.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace spillway::data {
namespace {

size_t width_of(int64_t length) { return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(length))); }
int64_t least_of(size_t width) { return width == 0 ? 0 : int64_t{1} << (width - 1); }
int64_t most_of(size_t width) { return width == 0 ? 0 : 2 * (least_of(width) - 1) + 1; }

}  // namespace

void LengthTally::add(int64_t length) { ++(length > limit_ ? over_ : within_)[width_of(length)]; }

int64_t LengthTally::rows_over() const { return std::accumulate(over_.begin(), over_.end(), int64_t{0}); }
int64_t LengthTally::rows() const { return std::accumulate(within_.begin(), within_.end(), rows_over()); }

std::vector<LengthBin> LengthTally::bins() const {
  std::vector<LengthBin> bins;
  const int64_t all = rows();
  int64_t seen = 0;
  for (size_t width = 0; width < kWidths && seen < all; ++width) {
    seen += within_[width] + over_[width];
    if (seen == 0) continue;
    const int64_t least = least_of(width), most = most_of(width);
    if (least <= limit_) bins.push_back({least, std::min(most, limit_), within_[width], false});
    if (most > limit_ && (least > limit_ || over_[width] > 0))
      bins.push_back({std::max(least, limit_ + 1), most, over_[width], true});
  }
  return bins;
}

int64_t LengthTally::length_for(double share_over) const {
  const auto most_over = static_cast<int64_t>(share_over * static_cast<double>(rows()));
  int64_t over = rows_over();
  if (over <= most_over) return 0;
  for (size_t width = width_of(limit_); width + 1 < kWidths; ++width) {
    over -= over_[width];
    if (over <= most_over) return most_of(width) + 1;
  }
  return 0;
}

nlohmann::ordered_json to_json(const LengthTally& tally) {
  nlohmann::ordered_json bins = nlohmann::ordered_json::array();
  for (const LengthBin& bin : tally.bins())
    bins.push_back({{"from", bin.from}, {"to", bin.to}, {"rows", bin.count}, {"longer", bin.is_over}});
  return {{"sequence_len", tally.limit()}, {"bins", std::move(bins)}};
}

LengthTally lengths_from_json(const nlohmann::ordered_json& json) {
  LengthTally tally(json.at("sequence_len"));
  for (const nlohmann::ordered_json& bin : json.at("bins")) {
    const int64_t from = bin.at("from");
    (bin.at("longer").get<bool>() ? tally.over_ : tally.within_)[width_of(from)] = bin.at("rows");
  }
  return tally;
}

}  // namespace spillway::data
