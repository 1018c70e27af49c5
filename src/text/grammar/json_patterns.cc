#include "text/grammar/json_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace spillway::text {
namespace {

constexpr uint32_t kLastCharacter = 0x10FFFF;
constexpr int64_t kMostRepeats = 1000;

struct Range {
  uint32_t low, high;
};
using CharacterSet = std::vector<Range>;

const CharacterSet kDigits = {{'0', '9'}};
const CharacterSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharacterSet kPatternSpaces = {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                     {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                     {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharacterSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

CharacterSet all_but(CharacterSet set) {
  std::sort(set.begin(), set.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  CharacterSet rest;
  uint32_t from = 0;
  for (const Range& range : set) {
    if (from < range.low) rest.push_back({from, range.low - 1});
    from = std::max(from, range.high + 1);
  }
  if (from <= kLastCharacter) rest.push_back({from, kLastCharacter});
  return rest;
}

std::string utf8_of(uint32_t c) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}

// Writes the characters of a set as JSON has them in strings.
class CharacterWriter {
 public:
  explicit CharacterWriter(ByteGrammar& grammar) : grammar_(grammar) {}

  GrammarPart any_of(const CharacterSet& set) {
    parts_.clear();
    for (const Range& range : set) add(range.low, range.high);
    return grammar_.any_of(std::exchange(parts_, {}));
  }

 private:
  // Surrogates are no characters.
  void add(uint32_t low, uint32_t high) {
    constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
    const Range pieces[] = {{0, 0x1F},
                            {0x20, 0x21},
                            {0x22, 0x22},
                            {0x23, 0x5B},
                            {0x5C, 0x5C},
                            {0x5D, 0x7F},
                            {0x80, 0x7FF},
                            {0x800, kFirstSurrogate - 1},
                            {kLastSurrogate + 1, 0xFFFF},
                            {0x10000, kLastCharacter}};
    for (const Range& piece : pieces) {
      const uint32_t from = std::max(low, piece.low), to = std::min(high, piece.high);
      if (from > to) continue;
      if (piece.high == 0x1F) {
        for (uint32_t c = from; c <= to; ++c) parts_.push_back(grammar_.text(control(c)));
      } else if (piece.low == piece.high) {  // a quote or a backslash
        parts_.push_back(grammar_.text(std::string("\\") + static_cast<char>(piece.low)));
      } else {
        parts_.push_back(bytes(utf8_of(from), utf8_of(to)));
      }
    }
  }

  static std::string control(uint32_t c) {
    const std::pair<uint32_t, const char*> kShort[] = {
        {'\b', "\\b"}, {'\f', "\\f"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};
    for (const auto& [code, text] : kShort) {
      if (code == c) return text;
    }
    return fmt::format("\\u{:04x}", c);
  }

  // The encodings from `low` to `high`, which have as many bytes.
  GrammarPart bytes(std::string_view low, std::string_view high) {
    const auto range = [&](uint8_t from, uint8_t to) { return grammar_.bytes(from, to); };
    const auto first = static_cast<uint8_t>(low[0]), last = static_cast<uint8_t>(high[0]);
    if (low.size() == 1) return range(first, last);
    const std::string lowest(low.size() - 1, '\x80'), highest(low.size() - 1, '\xBF');
    const std::string_view low_rest = low.substr(1), high_rest = high.substr(1);
    if (first == last) return grammar_.sequence({range(first, last), bytes(low_rest, high_rest)});
    std::vector<GrammarPart> parts;
    uint8_t from = first, to = last;
    if (low_rest != lowest) {
      parts.push_back(grammar_.sequence({range(from, from), bytes(low_rest, highest)}));
      ++from;
    }
    if (high_rest != highest) {
      parts.push_back(grammar_.sequence({range(to, to), bytes(lowest, high_rest)}));
      --to;
    }
    if (from <= to) parts.push_back(grammar_.sequence({range(from, to), bytes(lowest, highest)}));
    return grammar_.any_of(parts);
  }

  ByteGrammar& grammar_;
  std::vector<GrammarPart> parts_;
};

class PatternParser {
 public:
  PatternParser(ByteGrammar& grammar, JsonRules& rules, std::string_view pattern,
                const std::function<void(const std::string&)>& refuse)
      : grammar_(grammar), rules_(rules), writer_(grammar), refuse_(refuse) {
    for (size_t at = 0; at < pattern.size();) text_.push_back(decoded(pattern, at));
  }

  GrammarPart parse() {
    std::vector<GrammarPart> ways;
    do {
      const bool is_at_begin = take('^');
      GrammarPart part = sequence(0);
      const bool is_at_end = take('$');
      if (!is_at_begin) part = grammar_.sequence({anything(), part});
      if (!is_at_end) part = grammar_.sequence({part, anything()});
      ways.push_back(part);
    } while (take('|'));
    if (at_ < text_.size()) refuse_(text_[at_] == ')' ? "')' without '('" : "'$' inside");
    return grammar_.any_of(ways);
  }

 private:
  static uint32_t decoded(std::string_view text, size_t& at) {
    const auto lead = static_cast<uint8_t>(text[at++]);
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    uint32_t c = more == 0 ? lead : lead & (0x3FU >> more);
    for (int i = 0; i < more && at < text.size(); ++i) c = c << 6 | (static_cast<uint8_t>(text[at++]) & 63);
    return c;
  }

  [[nodiscard]] bool is_next(uint32_t c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(uint32_t c) {
    if (!is_next(c)) return false;
    ++at_;
    return true;
  }
  uint32_t next() {
    if (at_ == text_.size()) refuse_("an expression that ends too early");
    return text_[at_++];
  }

  GrammarPart anything() { return grammar_.repeated(rules_.character(), 0, ByteGrammar::kUnbounded); }

  GrammarPart alternatives(int depth) {
    std::vector<GrammarPart> ways;
    do ways.push_back(sequence(depth));
    while (take('|'));
    return grammar_.any_of(ways);
  }

  GrammarPart sequence(int depth) {
    constexpr int kMostDepth = 50;
    if (depth > kMostDepth) refuse_("groups that are nested deeper");
    std::vector<GrammarPart> parts = {grammar_.nothing()};
    while (at_ < text_.size() && !is_next('|') && !is_next(')') && !(is_next('$') && depth == 0))
      parts.push_back(quantified(atom(depth)));
    return grammar_.sequence(parts);
  }

  GrammarPart quantified(GrammarPart part) {
    int64_t min = 1, max = 1;
    if (take('*')) {
      min = 0, max = ByteGrammar::kUnbounded;
    } else if (take('+')) {
      max = ByteGrammar::kUnbounded;
    } else if (take('?')) {
      min = 0;
    } else if (take('{')) {
      min = max = count();
      if (take(',')) max = is_next('}') ? ByteGrammar::kUnbounded : count();
      if (!take('}') || (max != ByteGrammar::kUnbounded && max < min)) refuse_("'{' that is no count");
    } else {
      return part;
    }
    take('?');  // the texts are the same
    if (is_next('*') || is_next('+') || is_next('?') || is_next('{')) refuse_("a count of a count");
    const RuleId rule = grammar_.add_rule();
    grammar_.define(rule, part);
    return grammar_.repeated(rule, min, max);
  }

  int64_t count() {
    int64_t value = -1;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::max<int64_t>(value, 0) * 10 + (text_[at_++] - '0');
      if (value > kMostRepeats) refuse_(fmt::format("a count above {}", kMostRepeats));
    }
    if (value < 0) refuse_("'{' that is no count");
    return value;
  }

  GrammarPart atom(int depth) {
    const uint32_t c = next();
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return writer_.any_of(char_class());
      case '.':
        return writer_.any_of(all_but(kLineEnds));
      case '\\':
        return writer_.any_of(escape(false));
      case '^':
      case '$':
        refuse_(fmt::format("'{}' inside", static_cast<char>(c)));
        break;
      case '*':
      case '+':
      case '?':
      case '{':
      case '}':
      case ']':
        refuse_(fmt::format("'{}' alone", static_cast<char>(c)));
        break;
      default:
        break;
    }
    return writer_.any_of({{c, c}});
  }

  GrammarPart group(int depth) {
    if (take('?')) {
      if (take('<')) {
        if (is_next('=') || is_next('!')) refuse_("lookbehind");
        while (next() != '>') continue;  // a name
      } else if (!take(':')) {
        refuse_(is_next('=') || is_next('!') ? "lookahead" : "a group of another kind");
      }
    }
    const GrammarPart part = alternatives(depth + 1);
    if (!take(')')) refuse_("'(' without ')'");
    return part;
  }

  CharacterSet char_class() {
    const bool is_negated = take('^');
    CharacterSet set;
    while (!take(']')) {
      CharacterSet low = class_atom();
      const bool is_range = is_next('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (is_range) {
        ++at_;
        const CharacterSet high = class_atom();
        const bool are_characters = low.size() == 1 && high.size() == 1 && low[0].low == low[0].high &&
                                    high[0].low == high[0].high && low[0].low <= high[0].low;
        if (!are_characters) refuse_("a range of characters that is none");
        low = {{low[0].low, high[0].low}};
      }
      set.insert(set.end(), low.begin(), low.end());
    }
    return is_negated ? all_but(set) : set;
  }

  CharacterSet class_atom() {
    const uint32_t c = next();
    if (c == '\\') return escape(true);
    return {{c, c}};
  }

  CharacterSet escape(bool is_in_class) {
    const uint32_t c = next();
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return all_but(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return all_but(kWord);
      case 's':
        return kPatternSpaces;
      case 'S':
        return all_but(kPatternSpaces);
      case 'b':
        if (is_in_class) return {{'\b', '\b'}};
        refuse_("a word boundary");
        break;
      case 't':
        return {{'\t', '\t'}};
      case 'n':
        return {{'\n', '\n'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'r':
        return {{'\r', '\r'}};
      case '0':
        return {{0, 0}};
      case 'x':
        return one(hexadecimal(2));
      case 'u':
        return one(hexadecimal(4));
      default:
        break;
    }
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_letter) refuse_(fmt::format("'\\{}'", static_cast<char>(c)));
    return one(c);
  }

  static CharacterSet one(uint32_t c) { return {{c, c}}; }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const uint32_t c = next();
      const std::string_view known = "0123456789abcdef";
      const size_t digit = c < 0x80 ? known.find(lower_case(std::string(1, static_cast<char>(c)))) : known.npos;
      if (digit == known.npos) refuse_("a number of a character that is none");
      value = value << 4 | static_cast<uint32_t>(digit);
    }
    return value;
  }

  ByteGrammar& grammar_;
  JsonRules& rules_;
  CharacterWriter writer_;
  const std::function<void(const std::string&)>& refuse_;
  std::vector<uint32_t> text_;  // code points
  size_t at_ = 0;
};

}  // namespace

GrammarPart pattern_part(ByteGrammar& grammar, JsonRules& rules, std::string_view pattern,
                         const std::function<void(const std::string&)>& refuse) {
  return PatternParser(grammar, rules, pattern, refuse).parse();
}

}  // namespace spillway::text
