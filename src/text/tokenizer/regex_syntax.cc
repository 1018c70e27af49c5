#include "text/tokenizer/regex_syntax.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace spillway::text {
namespace {

constexpr size_t kMaxPattern = 20'000;  // bytes
constexpr int kMaxGroupNesting = 100;
constexpr int kMaxRepeat = 1000;

class RegexParser {
 public:
  RegexParser(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {
    if (pattern.size() > kMaxPattern) {
      throw input_error(where, "expected a pattern of at most {} bytes, got {}; shorten it", kMaxPattern,
                        pattern.size());
    }
    result_.sets.push_back(CodePointSet::of('\n'));
  }

  RegexSyntax parse() {
    while (!at_end()) parse_one();
    if (!groups_.empty()) throw bad("a closing ')'", "the end of the pattern");
    return std::move(result_);
  }

 private:
  struct Group {
    size_t start;  // index of its first item
    bool ignore_case_outside;
  };

  [[nodiscard]] bool at_end() const { return position_ >= pattern_.size(); }
  [[nodiscard]] bool next_is(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    position_ += text.size();
    return true;
  }
  char32_t take_character() {
    if (at_end()) throw bad("a character", "the end of the pattern");
    return next_code_point(pattern_, position_);
  }
  [[nodiscard]] InputError bad(std::string_view expected, std::string_view got) const {
    return input_error(where_,
                       "expected {} at byte {} of the pattern, got {}; use a pattern that Oniguruma reads, or "
                       "report this one",
                       expected, position_, got);
  }
  [[nodiscard]] InputError unsupported(std::string_view what) const {
    return input_error(where_, "expected a split pattern without {}, got one at byte {}; rewrite it", what, position_);
  }

  void emit(std::string structure) { result_.items.push_back({std::move(structure), -1}); }
  // Emits structure that a quantifier cannot follow.
  void emit_assertion(std::string structure) {
    emit(std::move(structure));
    atom_.reset();
  }
  void emit_set(const CodePointSet& set) {
    const auto found = std::find(result_.sets.begin(), result_.sets.end(), set);
    const int index = static_cast<int>(found - result_.sets.begin());
    if (found == result_.sets.end()) result_.sets.push_back(set);
    atom_ = result_.items.size();
    result_.items.push_back({"", index});
  }

  void parse_one() {
    const char c = pattern_[position_];
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '[') {
      ++position_;
      return emit_set(fold(parse_bracket(0)));
    }
    if (c == '\\') return parse_escape();
    if (c == '*' || c == '+' || c == '?' || (c == '{' && is_interval())) return parse_quantifier();
    if (take("|")) return emit_assertion("|");
    if (take("^")) return emit_assertion("^");
    if (take("$")) return emit_assertion("$");
    if (take(".")) return emit_set(CodePointSet::of('\n').complement());
    emit_set(fold(CodePointSet::of(take_character())));
  }

  void open_group() {
    if (groups_.size() >= kMaxGroupNesting) throw unsupported("more than 100 nested groups");
    const bool outside = ignore_case_;
    const size_t start = result_.items.size();
    std::string opening = "(?:";
    if (take("(?i)") || take("(?-i)")) {  // holds to the end of the enclosing group
      if (start > 0 && !result_.items.back().structure.starts_with("(?")) throw unsupported("(?i) inside a branch");
      ignore_case_ = pattern_[position_ - 2] == 'i' && pattern_[position_ - 3] != '-';
      atom_.reset();
      return;
    }
    if (take("(?i:")) {
      ignore_case_ = true;
    } else if (take("(?-i:")) {
      ignore_case_ = false;
    } else if (take("(?=") || take("(?!") || take("(?>")) {
      opening = pattern_.substr(position_ - 3, 3);
    } else if (take("(?<=") || take("(?<!")) {
      opening = pattern_.substr(position_ - 4, 4);
    } else if (!take("(?:")) {
      if (next_is("(?")) throw unsupported("named groups, comments or options but (?i)");
      ++position_;
    }
    groups_.push_back({start, outside});
    emit_assertion(std::move(opening));
  }

  void close_group() {
    if (groups_.empty()) throw bad("an opening '(' before this ')'", "none");
    ++position_;
    emit(")");
    atom_ = groups_.back().start;
    ignore_case_ = groups_.back().ignore_case_outside;
    groups_.pop_back();
  }

  // Returns true at {n}, {n,}, {,m} and {n,m}; any other brace is a character.
  [[nodiscard]] bool is_interval() const {
    size_t i = position_ + 1, digits = 0;
    const auto skip_digits = [&] {
      for (; i < pattern_.size() && pattern_[i] >= '0' && pattern_[i] <= '9'; ++i) ++digits;
    };
    skip_digits();
    if (i < pattern_.size() && pattern_[i] == ',') ++i, skip_digits();
    return digits > 0 && i < pattern_.size() && pattern_[i] == '}';
  }
  int take_number(int otherwise) {
    if (at_end() || pattern_[position_] < '0' || pattern_[position_] > '9') return otherwise;
    int value = 0;
    for (; !at_end() && pattern_[position_] >= '0' && pattern_[position_] <= '9'; ++position_) {
      value = value * 10 + (pattern_[position_] - '0');
      if (value > kMaxRepeat) throw unsupported("a repeat above 1000");
    }
    return value;
  }

  [[nodiscard]] bool quantifier_follows() const {
    return next_is("*") || next_is("+") || next_is("?") || (next_is("{") && is_interval());
  }

  // In Ruby's dialect `+` behind an interval repeats it, and `?` behind {n} makes it optional; behind `*`, `+` and `?`
  // they mean possessive and lazy as in PCRE2.
  void parse_quantifier() {
    if (!atom_) throw bad("something to repeat", fmt::format("'{}'", pattern_[position_]));
    if (take("*") || take("+") || take("?")) {
      std::string quantifier(1, pattern_[position_ - 1]);
      if (take("+") || take("?")) quantifier += pattern_[position_ - 1];
      emit(std::move(quantifier));
    } else {
      parse_interval();
    }
    if (quantifier_follows()) {
      result_.items.insert(result_.items.begin() + static_cast<std::ptrdiff_t>(*atom_), {"(?:", -1});
      emit(")");
    }
  }

  void parse_interval() {
    ++position_;
    const int least = take_number(0);
    const bool exact = next_is("}");
    const int most = exact ? least : (take(","), take_number(-1));
    ++position_;
    if (most >= 0 && most < least) throw bad("an interval {n,m} with n <= m", fmt::format("{{{},{}}}", least, most));
    emit(most < 0 ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most));
    if (!exact && take("?")) emit("?");
  }

  void parse_escape() {
    ++position_;
    if (take("b") || take("B")) return word_boundary(pattern_[position_ - 1] == 'b');
    if (take("A")) return emit_assertion("\\A");
    if (take("z")) return emit_assertion("\\z");
    if (take("Z")) return emit_assertion("(?=\\x0a?\\z)");
    if (!at_end() && std::string_view("123456789kgGKRXyY").find(pattern_[position_]) != std::string_view::npos) {
      throw unsupported(fmt::format("\\{}", pattern_[position_]));
    }
    emit_set(fold(parse_escaped_set()));
  }

  void word_boundary(bool at_boundary) {
    const auto word = [&](std::string_view opening) {
      emit(std::string(opening));
      emit_set(regex_word_set());
      emit(")");
    };
    emit("(?:(?:");
    word("(?<=");
    word(at_boundary ? "(?!" : "(?=");
    emit(")|(?:");
    word("(?<!");
    word(at_boundary ? "(?=" : "(?!");
    emit_assertion("))");
  }

  // Parses the text behind a backslash, in brackets and outside.
  CodePointSet parse_escaped_set() {
    const char32_t c = take_character();
    switch (c) {
      case 's':
        return whitespace_set();
      case 'S':
        return whitespace_set().complement();
      case 'd':
        return digit_set();
      case 'D':
        return digit_set().complement();
      case 'w':
        return regex_word_set();
      case 'W':
        return regex_word_set().complement();
      case 'h':
        return hex_digits();
      case 'H':
        return hex_digits().complement();
      case 'p':
        return parse_property(false);
      case 'P':
        return parse_property(true);
      default:
        return CodePointSet::of(escaped_character(c));
    }
  }
  static CodePointSet hex_digits() { return CodePointSet({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}); }

  char32_t escaped_character(char32_t c) {
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case '0':
        return 0;
      case 'x':
        return parse_hex(take("{") ? 0 : 2);
      case 'u':
        return parse_hex(4);
      default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9')) {
          throw unsupported(fmt::format("\\{}", static_cast<char>(c)));
        }
        return c;
    }
  }

  // Reads `digits` hexadecimal digits, or for 0 as many as stand before '}'.
  char32_t parse_hex(int digits) {
    char32_t value = 0;
    int count = 0;
    for (; !at_end() && (digits == 0 || count < digits); ++count) {
      const char c = pattern_[position_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
      if (value > kMaxCodePoint) throw bad("a code point up to 10FFFF", "a larger one");
      ++position_;
    }
    if (count == 0 || (digits > 2 && count != digits)) throw bad("hexadecimal digits", "none");
    if (digits == 0 && !take("}")) throw bad("'}'", "another character");
    if (digits == 2 && value >= 0x80) throw unsupported("\\x of a byte above 7F");
    return value;
  }

  CodePointSet parse_property(bool negated) {
    if (!take("{")) throw bad("'{' behind \\p", "another character");
    if (take("^")) negated = !negated;
    const size_t end = pattern_.find('}', position_);
    if (end == std::string_view::npos) throw bad("'}'", "the end of the pattern");
    const std::string_view name = pattern_.substr(position_, end - position_);
    const std::optional<CodePointSet> set = property_set(name);
    if (!set) {
      throw bad(
          "a general category or one of the scripts Arabic, Cyrillic, Greek, Han, Hangul, Hiragana, Katakana, "
          "Khmer, Lao, Latin, Myanmar, Thai",
          fmt::format("'{}'", name));
    }
    position_ = end + 1;
    return negated ? set->complement() : *set;
  }

  // REQUIRES: the opening bracket is read. Brackets nest, and && intersects, binding weakest.
  CodePointSet parse_bracket(int depth) {
    if (depth > kMaxGroupNesting) throw unsupported("more than 100 nested brackets");
    const bool negated = take("^");
    CodePointSet sum;
    std::optional<CodePointSet> product;
    for (bool first = true; first || !next_is("]"); first = false) {
      if (at_end()) throw bad("a closing ']'", "the end of the pattern");
      if (take("&&")) {
        product = product ? product->intersected(sum) : sum;
        sum = {};
      } else if (next_is("[:")) {
        throw unsupported("POSIX brackets");
      } else if (take("[")) {
        sum = sum.united(parse_bracket(depth + 1));
      } else {
        sum = sum.united(parse_bracket_item());
      }
    }
    ++position_;
    if (product) sum = product->intersected(sum);
    return negated ? sum.complement() : sum;
  }

  CodePointSet parse_bracket_item() {
    CodePointSet low = bracket_character();
    const bool range = next_is("-") && !next_is("-]") && !next_is("-[") && !next_is("-&&");
    if (!range || is_class(low)) return low;
    ++position_;
    const CodePointSet high = bracket_character();
    if (is_class(high)) return low.united(CodePointSet::of('-')).united(high);
    const char32_t first = low.ranges()[0].first, last = high.ranges()[0].first;
    if (first > last) throw bad("a range that rises", "one that falls");
    return CodePointSet({{first, last}});
  }
  static bool is_class(const CodePointSet& set) {
    return set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].last;
  }
  CodePointSet bracket_character() {
    if (take("\\")) return take("b") ? CodePointSet::of('\b') : parse_escaped_set();
    return CodePointSet::of(take_character());
  }

  // Adds under (?i) the other case of each ASCII letter, and the long s and the Kelvin sign that fold to ASCII. (Folds
  // into two characters, such as U+FB06 for "st", are left out: no split pattern has such a pair.)
  CodePointSet fold(const CodePointSet& set) const {
    if (!ignore_case_) return set;
    std::vector<CodePointRange> others;
    const auto pair = [&](char32_t a, char32_t b) {
      if (set.contains(a)) others.push_back({b, b});
      if (set.contains(b)) others.push_back({a, a});
    };
    for (char32_t c = 'a'; c <= 'z'; ++c) pair(c, c - 'a' + 'A');
    for (const char32_t c : {U's', U'S'}) pair(c, 0x17F);
    for (const char32_t c : {U'k', U'K'}) pair(c, 0x212A);
    const bool single = !is_class(set);
    if (single && set.ranges()[0].first >= 0x80 && is_word(set.ranges()[0].first)) {
      throw unsupported("case-insensitive letters beyond ASCII");
    }
    return set.united(CodePointSet(std::move(others)));
  }

  std::string_view pattern_, where_;
  size_t position_ = 0;
  bool ignore_case_ = false;
  std::vector<Group> groups_;
  std::optional<size_t> atom_;  // index of the first item of the part that a quantifier would repeat
  RegexSyntax result_;
};

}  // namespace

RegexSyntax parse_regex(std::string_view pattern, std::string_view where) {
  return RegexParser(pattern, where).parse();
}

}  // namespace spillway::text
