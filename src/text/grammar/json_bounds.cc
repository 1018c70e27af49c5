#include "text/grammar/json_bounds.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::text {
namespace {

constexpr int64_t kMostWhole = 999'999'999'999'999;

// The digits of a bound behind the point that are left; they bind only while the digits before were the same.
struct Rest {
  std::string digits;
  bool is_open = false;
};
using Bound = std::optional<Rest>;

// Numbers that are not negative.
class Magnitudes {
 public:
  Magnitudes(ByteGrammar& grammar, JsonRules& rules) : grammar_(grammar), rules_(rules) {}

  GrammarPart between(const DecimalBound& low, const std::optional<DecimalBound>& high) {
    if (high && high->whole < low.whole) return grammar_.any_of({});
    const Bound from = Rest{low.fraction, low.is_open};
    const Bound to = high ? Bound(Rest{high->fraction, high->is_open}) : Bound();
    if (high && high->whole == low.whole) return with_fraction(low.whole, low.whole, from, to);
    std::vector<GrammarPart> parts = {with_fraction(low.whole, low.whole, from, {})};
    const int64_t last = high ? high->whole - 1 : kMostWhole;
    if (low.whole < last) parts.push_back(with_fraction(low.whole + 1, last, {}, {}));
    if (high) parts.push_back(with_fraction(high->whole, high->whole, {}, to));
    return grammar_.any_of(parts);
  }

 private:
  GrammarPart with_fraction(int64_t low, int64_t high, const Bound& from, const Bound& to) {
    std::vector<GrammarPart> ends = {grammar_.sequence({grammar_.text("."), fraction(from, to, kMaxDecimalDigits)})};
    if (may_end(from, to)) ends.push_back(grammar_.nothing());
    return grammar_.sequence({rules_.integers(low, high), grammar_.any_of(ends)});
  }

  // Returns true if a number whose next digits are all zeros is between the bounds.
  static bool may_end(const Bound& from, const Bound& to) {
    const bool is_above = !from || (from->digits.empty() && !from->is_open);
    const bool is_below = !to || !to->digits.empty() || !to->is_open;
    return is_above && is_below;
  }

  // Returns the digits behind the point, one to `count` of them.
  GrammarPart fraction(const Bound& lower, const Bound& to, int64_t count) {
    const bool is_reached = lower && lower->digits.empty() && !lower->is_open;  // and binds no more
    const Bound from = is_reached ? Bound() : lower;
    if (!from && !to) return rules_.digits(1, count);
    if (count == 0) return grammar_.any_of({});
    const auto first = [](const Bound& bound, char otherwise) {
      return !bound ? otherwise : bound->digits.empty() ? '0' : bound->digits.front();
    };
    const char low = first(from, '0'), high = first(to, '9');
    std::vector<GrammarPart> parts;
    for (char digit = low; digit <= high; ++digit) {
      const Bound above = from && digit == low ? rest_of(from) : Bound();
      const Bound below = to && digit == high ? rest_of(to) : Bound();
      std::vector<GrammarPart> ends = {fraction(above, below, count - 1)};
      if (may_end(above, below)) ends.push_back(grammar_.nothing());
      const auto byte = static_cast<uint8_t>(digit);
      parts.push_back(grammar_.sequence({grammar_.bytes(byte, byte), grammar_.any_of(ends)}));
    }
    return grammar_.any_of(parts);
  }

  static Bound rest_of(const Bound& bound) {
    return Rest{bound->digits.empty() ? "" : bound->digits.substr(1), bound->is_open};
  }

  ByteGrammar& grammar_;
  JsonRules& rules_;
};

DecimalBound without_sign(DecimalBound bound) {
  bound.is_negative = false;
  return bound;
}

// Returns the number, without an exponent, in as few digits behind the point as are read back as it; empty if
// kMaxDecimalDigits are too few.
std::string shortest_decimal(double value) {
  for (int digits = 0; digits <= kMaxDecimalDigits; ++digits) {
    std::string text = fmt::format("{:.{}f}", value, digits);
    double again = 0;
    std::from_chars(text.data(), text.data() + text.size(), again);
    if (again == value) return text;
  }
  return {};
}

}  // namespace

std::optional<DecimalBound> decimal_bound(double value, bool is_open) {
  if (!std::isfinite(value) || std::fabs(value) > static_cast<double>(kMostWhole)) return std::nullopt;
  const std::string text = shortest_decimal(std::fabs(value));
  if (text.empty()) return std::nullopt;
  const size_t point = text.find('.');
  DecimalBound bound{.is_negative = value < 0, .is_open = is_open};
  bound.whole = std::stoll(text.substr(0, point));
  if (point != std::string::npos) bound.fraction = text.substr(point + 1);
  return bound;
}

GrammarPart numbers_between(ByteGrammar& grammar, JsonRules& rules, const std::optional<DecimalBound>& low,
                            const std::optional<DecimalBound>& high) {
  Magnitudes magnitudes(grammar, rules);
  const DecimalBound zero{}, above_zero{.is_open = true};
  std::vector<GrammarPart> parts;
  if (!high || !high->is_negative) parts.push_back(magnitudes.between(low && !low->is_negative ? *low : zero, high));
  if (!low || low->is_negative) {
    const DecimalBound least = high && high->is_negative ? without_sign(*high) : above_zero;
    const std::optional<DecimalBound> most = low ? std::optional(without_sign(*low)) : std::nullopt;
    parts.push_back(grammar.sequence({grammar.text("-"), magnitudes.between(least, most)}));
  }
  return grammar.any_of(parts);
}

}  // namespace spillway::text
