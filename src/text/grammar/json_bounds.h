// Numbers in JSON between two bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/grammar/json_rules.h"

namespace spillway::text {

// A bound in decimal digits: -12.5 is {true, 12, "5"}.
struct DecimalBound {
  bool is_negative = false;
  int64_t whole = 0;
  std::string fraction;  // without zeros at the end
  bool is_open = false;  // whether the bound itself is outside
};

// Returns the number as digits; nullopt where it needs more than kMaxDecimalDigits on a side of the point.
constexpr int64_t kMaxDecimalDigits = 15;
[[nodiscard]] std::optional<DecimalBound> decimal_bound(double value, bool is_open);

// Returns the numbers between the bounds, without exponents, and with up to kMaxDecimalDigits on each side of the
// point.
[[nodiscard]] ByteGrammar::Part numbers_between(ByteGrammar& grammar, JsonRules& rules,
                                                const std::optional<DecimalBound>& low,
                                                const std::optional<DecimalBound>& high);

}  // namespace spillway::text
