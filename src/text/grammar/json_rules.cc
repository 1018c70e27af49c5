#include "text/grammar/json_rules.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace spillway::text {

template <typename Make>
RuleId JsonRules::rule(RuleId& id, const Make& make) {
  if (id >= 0) return id;
  const RuleId made = id = grammar_.add_rule();
  grammar_.define(made, make());
  return made;
}

RuleId JsonRules::space() {
  return rule(space_, [&] {
    constexpr int64_t kMaxIndent = 20;
    const RuleId blank = grammar_.add_rule();
    grammar_.define(blank, grammar_.any_of({grammar_.text(" "), grammar_.text("\t")}));
    return grammar_.any_of({grammar_.nothing(), grammar_.text(" "),
                            grammar_.sequence({grammar_.text("\n"), grammar_.repeated(blank, 0, kMaxIndent)})});
  });
}

// Well-formed UTF-8 (Unicode, table 3-7) from U+0020 on, but for the quote and the backslash.
GrammarPart JsonRules::characters(const std::set<uint8_t>& without) {
  struct Form {
    uint8_t first_low, first_high, second_low, second_high;
    int more;  // bytes behind the second
  };
  constexpr std::array<Form, 11> kForms = {{{0x20, 0x21, 0, 0, 0},
                                            {0x23, 0x5B, 0, 0, 0},
                                            {0x5D, 0x7F, 0, 0, 0},
                                            {0xC2, 0xDF, 0x80, 0xBF, 0},
                                            {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                            {0xE1, 0xEC, 0x80, 0xBF, 1},
                                            {0xED, 0xED, 0x80, 0x9F, 1},
                                            {0xEE, 0xEF, 0x80, 0xBF, 1},
                                            {0xF0, 0xF0, 0x90, 0xBF, 2},
                                            {0xF1, 0xF3, 0x80, 0xBF, 2},
                                            {0xF4, 0xF4, 0x80, 0x8F, 2}}};
  std::vector<GrammarPart> characters;
  for (const Form& form : kForms) {
    std::vector<GrammarPart> first;
    int from = form.first_low;
    for (int byte = from; byte <= form.first_high + 1; ++byte) {
      if (byte <= form.first_high && !without.contains(static_cast<uint8_t>(byte))) continue;
      if (from < byte) first.push_back(grammar_.bytes(static_cast<uint8_t>(from), static_cast<uint8_t>(byte - 1)));
      from = byte + 1;
    }
    std::vector<GrammarPart> bytes = {grammar_.any_of(first)};
    if (form.second_high > 0) bytes.push_back(grammar_.bytes(form.second_low, form.second_high));
    for (int i = 0; i < form.more; ++i) bytes.push_back(grammar_.bytes(0x80, 0xBF));
    characters.push_back(grammar_.sequence(bytes));
  }
  return grammar_.any_of(characters);
}

RuleId JsonRules::plain_character() {
  return rule(plain_, [&] { return characters({}); });
}

RuleId JsonRules::character() {
  return rule(character_, [&] {
    std::vector<GrammarPart> escapes;
    for (const char c : std::string("\"\\/bfnrt")) escapes.push_back(grammar_.text(std::string(1, c)));
    const auto hex = [&](const char* digits) {
      std::vector<GrammarPart> parts;
      for (const char c : std::string(digits)) parts.push_back(grammar_.text(std::string(1, c)));
      return grammar_.any_of(parts);
    };
    const auto any = [&] { return hex("0123456789abcdefABCDEF"); };
    escapes.push_back(grammar_.sequence({grammar_.text("u"), hex("0123456789abcefABCEF"), any(), any(), any()}));
    escapes.push_back(
        grammar_.sequence({grammar_.text("u"), hex("dD"), hex("01234567"), any(), any()}));  // below the surrogates
    return grammar_.any_of(
        {grammar_.call(plain_character()), grammar_.sequence({grammar_.text("\\"), grammar_.any_of(escapes)})});
  });
}

RuleId JsonRules::string() {
  return rule(string_, [&] {
    return grammar_.sequence(
        {grammar_.text("\""), grammar_.repeated(character(), 0, ByteGrammar::kUnbounded), grammar_.text("\"")});
  });
}

RuleId JsonRules::digit() {
  return rule(digit_, [&] { return grammar_.bytes('0', '9'); });
}
GrammarPart JsonRules::digits(int64_t count) { return digits(count, count); }
GrammarPart JsonRules::digits(int64_t min, int64_t max) { return grammar_.repeated(digit(), min, max); }

RuleId JsonRules::number() {
  return rule(number_, [&] {
    constexpr int64_t kDigits = 15;
    const GrammarPart sign = grammar_.any_of({grammar_.text("+"), grammar_.text("-"), grammar_.nothing()});
    return grammar_.sequence(
        {grammar_.optional(grammar_.text("-")),
         grammar_.any_of({grammar_.text("0"), grammar_.sequence({grammar_.bytes('1', '9'), digits(0, kDigits - 1)})}),
         grammar_.optional(grammar_.sequence({grammar_.text("."), digits(1, kDigits)})),
         grammar_.optional(
             grammar_.sequence({grammar_.any_of({grammar_.text("e"), grammar_.text("E")}), sign, digits(1, 2)}))});
  });
}

GrammarPart JsonRules::list(char open, RuleId element, char close) {
  const RuleId next = grammar_.add_rule();
  grammar_.define(next, grammar_.sequence({grammar_.text(","), grammar_.call(space()), grammar_.call(element)}));
  return grammar_.sequence(
      {grammar_.text(std::string(1, open)), grammar_.call(space()),
       grammar_.optional(grammar_.sequence(
           {grammar_.call(element), grammar_.repeated(next, 0, ByteGrammar::kUnbounded), grammar_.call(space())})),
       grammar_.text(std::string(1, close))});
}

RuleId JsonRules::array() {
  return rule(array_, [&] { return list('[', value(), ']'); });
}

RuleId JsonRules::object() {
  return rule(object_, [&] {
    const RuleId member = rule(member_, [&] {
      return grammar_.sequence(
          {grammar_.call(string()), grammar_.text(":"), grammar_.call(space()), grammar_.call(value())});
    });
    return list('{', member, '}');
  });
}

RuleId JsonRules::value() {
  return rule(value_, [&] {
    return grammar_.any_of({grammar_.call(object()), grammar_.call(array()), grammar_.call(string()),
                            grammar_.call(number()), grammar_.text("true"), grammar_.text("false"),
                            grammar_.text("null")});
  });
}

// The numbers begin as `low` does, as `high` does, or with a digit between.
GrammarPart JsonRules::of_digits(std::string_view low, std::string_view high) {
  if (low.empty()) return grammar_.nothing();
  const auto all = [](std::string_view text, char digit) {
    return std::all_of(text.begin(), text.end(), [&](char c) { return c == digit; });
  };
  const auto count = static_cast<int64_t>(low.size());
  if (all(low, '0') && all(high, '9')) return digits(count);
  const std::string_view low_rest = low.substr(1), high_rest = high.substr(1);
  const auto first = [&](char from, char to) {
    return grammar_.bytes(static_cast<uint8_t>(from), static_cast<uint8_t>(to));
  };
  if (low[0] == high[0]) return grammar_.sequence({first(low[0], low[0]), of_digits(low_rest, high_rest)});
  const std::string nines(low_rest.size(), '9'), zeros(low_rest.size(), '0');
  std::vector<GrammarPart> parts = {grammar_.sequence({first(low[0], low[0]), of_digits(low_rest, nines)}),
                                    grammar_.sequence({first(high[0], high[0]), of_digits(zeros, high_rest)})};
  if (high[0] - low[0] > 1)
    parts.push_back(
        grammar_.sequence({first(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), digits(count - 1)}));
  return grammar_.any_of(parts);
}

GrammarPart JsonRules::naturals(int64_t low, int64_t high) {
  std::vector<GrammarPart> parts;
  for (int64_t from = low; from <= high;) {
    const std::string first = std::to_string(from);
    const std::string last = std::min(
        std::to_string(high), std::string(first.size(), '9'),
        [](const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
    parts.push_back(of_digits(first, last));
    from = std::stoll(last) + 1;
  }
  return grammar_.any_of(parts);
}

GrammarPart JsonRules::integers(std::optional<int64_t> low, std::optional<int64_t> high) {
  constexpr int64_t kMost = 999'999'999'999'999'999;
  const int64_t from = std::clamp(low.value_or(-kMost), -kMost, kMost + 1);
  const int64_t to = std::clamp(high.value_or(kMost), -kMost - 1, kMost);
  std::vector<GrammarPart> parts = {naturals(std::max<int64_t>(from, 0), to)};
  if (from < 0) parts.push_back(grammar_.sequence({grammar_.text("-"), naturals(std::max<int64_t>(-to, 1), -from)}));
  return grammar_.any_of(parts);
}

}  // namespace spillway::text
