// The parts of JSON as rules of a grammar: white space, strings, numbers, and values of any form.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "text/grammar/byte_grammar.h"

namespace spillway::text {

// The most digits of an integer: all of them fit 64 bits.
constexpr int64_t kMaxJsonDigits = 18;

// Defines rules when they are asked for first. Borrows the grammar.
class JsonRules {
 public:
  explicit JsonRules(ByteGrammar& grammar) : grammar_(grammar) {}

  // Nothing, a space, or a line break and an indent: an answer that may have any white space may never end.
  [[nodiscard]] RuleId space();
  // A character of a string, as it is or escaped: one code point, so that lengths can be counted. No surrogates.
  [[nodiscard]] RuleId character();
  // A character that is not escaped.
  [[nodiscard]] RuleId plain_character();
  // Such a character whose first byte is none of these.
  [[nodiscard]] ByteGrammar::Part characters(const std::set<uint8_t>& without);
  [[nodiscard]] RuleId string();
  // Numbers of up to 15 digits before and behind the point, and exponents of two: all are doubles.
  [[nodiscard]] RuleId number();
  [[nodiscard]] RuleId value();
  [[nodiscard]] RuleId object();
  [[nodiscard]] RuleId array();

  // Integers from `low` to `high`, of up to kMaxJsonDigits digits.
  [[nodiscard]] ByteGrammar::Part integers(std::optional<int64_t> low, std::optional<int64_t> high);
  // `count` digits.
  [[nodiscard]] ByteGrammar::Part digits(int64_t count);
  [[nodiscard]] ByteGrammar::Part digits(int64_t min, int64_t max);
  // Numbers from `low` to `high`, all of as many digits as these two. REQUIRES: both have as many, and low <= high.
  [[nodiscard]] ByteGrammar::Part of_digits(std::string_view low, std::string_view high);

 private:
  [[nodiscard]] RuleId digit();
  [[nodiscard]] ByteGrammar::Part naturals(int64_t low, int64_t high);
  [[nodiscard]] ByteGrammar::Part list(char open, RuleId element, char close);
  // Returns the rule, which `make` defines if it is not there yet. A rule may refer to itself.
  template <typename Make>
  RuleId rule(RuleId& id, const Make& make);

  ByteGrammar& grammar_;
  RuleId space_ = -1, character_ = -1, plain_ = -1, string_ = -1, number_ = -1, value_ = -1, object_ = -1, array_ = -1,
         digit_ = -1, member_ = -1;
};

}  // namespace spillway::text
