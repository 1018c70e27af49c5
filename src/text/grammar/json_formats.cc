#include "text/grammar/json_formats.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "text/grammar/json_patterns.h"

namespace spillway::text {
namespace {

class Formats {
 public:
  Formats(ByteGrammar& grammar, JsonRules& rules) : grammar_(grammar), rules_(rules) {}

  GrammarPart date() {
    const auto days_of = [&](const std::vector<const char*>& months, const char* last_day) {
      std::vector<GrammarPart> parts;
      for (const char* month : months) parts.push_back(grammar_.text(month));
      return grammar_.sequence({grammar_.any_of(parts), grammar_.text("-"), from_to("01", last_day)});
    };
    return grammar_.sequence({from_to("1000", "2999"), grammar_.text("-"),
                              grammar_.any_of({days_of({"01", "03", "05", "07", "08", "10", "12"}, "31"),
                                               days_of({"04", "06", "09", "11"}, "30"), days_of({"02"}, "28")})});
  }

  GrammarPart time() {
    const GrammarPart fraction = grammar_.sequence({grammar_.text("."), rules_.digits(1, 6)});
    const GrammarPart sign = grammar_.any_of({grammar_.text("+"), grammar_.text("-")});
    const GrammarPart zone = grammar_.sequence({sign, hours_minutes()});
    return grammar_.sequence({hours_minutes(), grammar_.text(":"), from_to("00", "59"), grammar_.optional(fraction),
                              grammar_.any_of({grammar_.text("Z"), zone})});
  }

  GrammarPart uuid() {
    const RuleId hex = grammar_.add_rule();
    grammar_.define(hex, grammar_.any_of({grammar_.bytes('0', '9'), grammar_.bytes('a', 'f')}));
    std::vector<GrammarPart> parts;
    for (const int64_t count : {8, 4, 4, 4, 12}) {
      if (!parts.empty()) parts.push_back(grammar_.text("-"));
      parts.push_back(grammar_.repeated(hex, count, count));
    }
    return grammar_.sequence(parts);
  }

 private:
  GrammarPart from_to(std::string_view low, std::string_view high) { return rules_.of_digits(low, high); }
  GrammarPart hours_minutes() {
    return grammar_.sequence({from_to("00", "23"), grammar_.text(":"), from_to("00", "59")});
  }

  ByteGrammar& grammar_;
  JsonRules& rules_;
};

// Formats that are an expression.
struct PatternFormat {
  std::string_view name, pattern;
};
constexpr PatternFormat kPatternFormats[] = {
    {"email", "^[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+$"},
    {"hostname", "^[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)*$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$"},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
    {"uri",
     "^https?://[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)*(:[0-9]{1,4})?(/[A-Za-z0-9._~-]*)*"
     "(\\?[A-Za-z0-9._~&=-]*)?(#[A-Za-z0-9._~-]*)?$"}};

}  // namespace

std::optional<GrammarPart> format_part(ByteGrammar& grammar, JsonRules& rules, std::string_view format) {
  Formats formats(grammar, rules);
  if (format == "date") return formats.date();
  if (format == "time") return formats.time();
  if (format == "date-time") return grammar.sequence({formats.date(), grammar.text("T"), formats.time()});
  if (format == "uuid") return formats.uuid();
  for (const PatternFormat& one : kPatternFormats) {
    if (format != one.name) continue;
    return pattern_part(grammar, rules, one.pattern,
                        [](const std::string& what) { SPILLWAY_CHECK(false, "the expression of a format: {}", what); });
  }
  return std::nullopt;
}

}  // namespace spillway::text
