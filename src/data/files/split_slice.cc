#include "data/files/split_slice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace spillway::data {
namespace {

constexpr std::string_view kAdvice = "write for example train, train[:10%] or train[100:200]";

InputError no_split(std::string_view text) {
  return input_error("split", "expected the name of a split, perhaps with a slice, got {}; {}", quote(text), kAdvice);
}

std::optional<SliceEnd> parse_end(std::string_view text, std::string_view all) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  SliceEnd end;
  end.percent = text.ends_with('%');
  if (end.percent) text.remove_suffix(1);
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), end.value);
  if (error != std::errc() || stop != digits.data() + digits.size()) throw no_split(all);
  return end;
}

// As in the datasets library, one percent sign applies to both ends, and only percentages are rounded.
void read_percents(SplitSlice& slice, bool is_rounded, std::string_view all) {
  const bool is_percent = (slice.from && slice.from->percent) || (slice.to && slice.to->percent);
  if (is_rounded && !is_percent)
    throw input_error("split", "expected a rounding of a slice in percent alone, got {}; leave the rounding out",
                      quote(all));
  for (std::optional<SliceEnd>* end : {&slice.from, &slice.to}) {
    if (!*end || !is_percent) continue;
    (*end)->percent = true;
    if ((*end)->value < -100 || (*end)->value > 100) throw no_split(all);
  }
}

SplitSlice parse_one(std::string_view text) {
  SplitSlice slice;
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) throw no_split(text);
  std::string_view rest = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  constexpr std::string_view kClosest = "(closest)", kWhole = "(pct1_dropremainder)";
  slice.whole_percents = rest.ends_with(kWhole);
  const bool is_rounded = slice.whole_percents || rest.ends_with(kClosest);
  if (is_rounded) rest.remove_suffix(slice.whole_percents ? kWhole.size() : kClosest.size());
  const size_t open = rest.find('[');
  slice.split = std::string(rest.substr(0, open));
  if (slice.split.empty() || slice.split.find_first_of("]:/%() ") != std::string::npos) throw no_split(text);
  if (open == std::string_view::npos) {
    read_percents(slice, is_rounded, text);
    return slice;
  }
  const size_t colon = rest.find(':', open);
  if (colon == std::string_view::npos || !rest.ends_with(']')) throw no_split(text);
  slice.from = parse_end(rest.substr(open + 1, colon - open - 1), text);
  slice.to = parse_end(rest.substr(colon + 1, rest.size() - colon - 2), text);
  read_percents(slice, is_rounded, text);
  return slice;
}

}  // namespace

bool SplitSlice::needs_count() const {
  const auto counts = [](const std::optional<SliceEnd>& end) { return end && (end->percent || end->value < 0); };
  return counts(from) || counts(to);
}

std::pair<int64_t, int64_t> SplitSlice::range(std::optional<int64_t> rows) const {
  const auto place = [&](const std::optional<SliceEnd>& end, int64_t otherwise) {
    if (!end) return otherwise;
    int64_t at = end->value;
    if (whole_percents && *rows < 100)
      throw input_error(
          "split", "expected at least 100 rows for a slice in whole percents, got {}; leave the rounding out", *rows);
    if (end->percent) {
      at = whole_percents ? at * (*rows / 100)
                          : static_cast<int64_t>(std::nearbyint(static_cast<double>(at * *rows) / 100.0));
    }
    if (!rows) return at;
    return std::clamp<int64_t>(at < 0 ? at + *rows : at, 0, *rows);
  };
  return {place(from, 0), place(to, rows.value_or(std::numeric_limits<int64_t>::max()))};
}

std::vector<SplitSlice> parse_split(std::string_view text) {
  std::vector<SplitSlice> slices;
  for (size_t at = 0; at <= text.size();) {
    const size_t plus = std::min(text.find('+', at), text.size());
    slices.push_back(parse_one(text.substr(at, plus - at)));
    at = plus + 1;
  }
  return slices;
}

}  // namespace spillway::data
