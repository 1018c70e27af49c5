#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_decimal(c); }

std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
      continue;
    }
    text.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_text();
    add(Token::Kind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string message) const { throw SyntaxFailure{line_, std::move(message)}; }

  [[nodiscard]] bool starts(std::string_view what) const {
    return std::string_view(source_).substr(at_).starts_with(what);
  }

  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(size_t bytes) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(bytes), '\n'));
    at_ += bytes;
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void skip_space() {
    size_t end = at_;
    while (end < source_.size() && is_space(code_point(source_, end))) end += char_bytes(source_, end);
    advance(end - at_);
  }

  // Adds the text up to the next tag, then the tag.
  void lex_text() {
    const size_t begin = find_tag(at_);
    if (begin == std::string::npos) {
      add(Token::Kind::kText, source_.substr(at_));
      advance(source_.size() - at_);
      return;
    }
    const char tag = source_[begin + 1];
    const char sign = sign_at(begin + 2);
    add_text(source_.substr(at_, begin - at_), sign, tag != '{');
    advance(begin - at_ + 2 + (sign != 0 ? 1 : 0));
    if (tag == '#') {
      lex_comment();
    } else if (tag == '{') {
      lex_expression(Token::Kind::kOutputBegin, Token::Kind::kOutputEnd, "}}");
    } else if (!lex_raw()) {
      lex_expression(Token::Kind::kBlockBegin, Token::Kind::kBlockEnd, "%}");
    }
  }

  [[nodiscard]] size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() && (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#'))
        return at;
    }
    return std::string::npos;
  }

  [[nodiscard]] char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // `sign` is that of the tag that follows; blocks and comments remove the white space before them on their line.
  void add_text(std::string text, char sign, bool strips_line) {
    if (sign == '-') {
      text = std::string(strip(text, false, true, nullptr));
    } else if (sign != '+' && strips_line) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string::npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && strip(std::string_view(text).substr(line), true, false, nullptr).empty()) {
        text.resize(line);
      }
    }
    if (!text.empty()) add(Token::Kind::kText, std::move(text));
  }

  // Handles the space after the end mark of a block or comment whose last character before the mark is `sign`.
  void finish_tag(char sign, bool trims_newline) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trims_newline && at_ < source_.size() && source_[at_] == '\n') {
      advance(1);
    }
  }

  void lex_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("expected '#}' after '{#', got the end of the template");
    const char sign = end > at_ ? sign_at(end - 1) : '\0';
    advance(end + 2 - at_);
    finish_tag(sign, true);
  }

  // Reads {% raw %} ... {% endraw %}; returns false (and consumes nothing) if the block is another one.
  bool lex_raw() {
    size_t at = at_;
    const auto space = [&] {
      while (at < source_.size() && is_space(code_point(source_, at))) at += char_bytes(source_, at);
    };
    const auto word = [&](std::string_view text) {
      if (source_.compare(at, text.size(), text) != 0) return false;
      at += text.size();
      return true;
    };
    space();
    if (!word("raw")) return false;
    space();
    const char sign = sign_at(at) == '-' ? '-' : '\0';
    if (sign != 0) ++at;
    if (!word("%}")) return false;
    advance(at - at_);
    finish_tag(sign, false);
    for (size_t begin = source_.find("{%", at_); begin != std::string::npos; begin = source_.find("{%", begin + 1)) {
      at = begin + 2;
      const char open = sign_at(at);
      if (open != 0) ++at;
      space();
      if (!word("endraw")) continue;
      space();
      const char close = sign_at(at);
      if (close != 0) ++at;
      if (!word("%}")) continue;
      add_text(source_.substr(at_, begin - at_), open, true);
      advance(at - at_);
      finish_tag(close, true);
      return true;
    }
    fail("expected '{% endraw %}' after '{% raw %}', got the end of the template");
  }

  void lex_expression(Token::Kind begin, Token::Kind end, std::string_view mark) {
    add(begin, {});
    std::string open;  // brackets that wait for their partner: inside them the end mark is not one
    for (;;) {
      skip_space();
      if (at_ >= source_.size()) fail(fmt::format("expected '{}', got the end of the template", mark));
      if (open.empty()) {
        const char sign = sign_at(at_);
        const bool signed_end = sign != 0 && (sign == '-' || mark == "%}") && source_.compare(at_ + 1, 2, mark) == 0;
        if (signed_end || starts(mark)) {
          add(end, {});
          advance(signed_end ? 3 : 2);
          finish_tag(signed_end ? sign : '\0', mark == "%}");
          return;
        }
      }
      lex_token(open);
    }
  }

  void lex_token(std::string& open) {
    const char c = source_[at_];
    if (is_decimal(c)) return lex_number();
    if (is_name_start(c)) {
      size_t end = at_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      add(Token::Kind::kName, source_.substr(at_, end - at_));
      return advance(end - at_);
    }
    if (c == '"' || c == '\'') return lex_string(c);
    static constexpr std::array<std::string_view, 6> kDouble = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view op : kDouble) {
      if (!starts(op)) continue;
      add(Token::Kind::kOperator, std::string(op));
      return advance(2);
    }
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      fail(
          fmt::format("expected an expression, got the character '{}'", source_.substr(at_, char_bytes(source_, at_))));
    }
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(fmt::format("expected a closing bracket that fits, got '{}'", c));
      open.pop_back();
    }
    add(Token::Kind::kOperator, std::string(1, c));
    advance(1);
  }

  // Skips digits with single underscores between them, from `at` on.
  [[nodiscard]] size_t skip_digits(size_t at, std::string_view allowed) const {
    const auto digit = [&](size_t i) {
      return i < source_.size() && allowed.find(source_[i]) != std::string_view::npos;
    };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  void lex_number() {
    static constexpr std::string_view kDecimal = "0123456789";
    const char prefix =
        at_ + 1 < source_.size() && source_[at_] == '0' ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    size_t end = at_;
    bool real = false;
    if (prefix == 'x' || prefix == 'o' || prefix == 'b') {
      const std::string_view digits = prefix == 'x' ? "0123456789abcdefABCDEF" : prefix == 'o' ? "01234567" : "01";
      end = skip_digits(at_ + 2, digits);
    } else {
      end = skip_digits(at_, kDecimal);
      if (end + 1 < source_.size() && source_[end] == '.' && is_decimal(source_[end + 1])) {
        real = true;
        end = skip_digits(end + 1, kDecimal);
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const size_t digits = end + (sign_at(end + 1) != 0 ? 2 : 1);
        if (digits < source_.size() && is_decimal(source_[digits])) {
          real = true;
          end = skip_digits(digits, kDecimal);
        }
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(real ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text));
    advance(end - at_);
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("expected the end of a string, got the end of the template");
    add(Token::Kind::kString, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  // Replaces Python's escapes.
  [[nodiscard]] std::string unescape(std::string_view raw) const {
    std::string text;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 >= raw.size()) {
        text.push_back(raw[i]);
        continue;
      }
      const char c = raw[++i];
      static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      const size_t simple = kFrom.find(c);
      if (simple != std::string_view::npos) {
        text.push_back(kTo[simple]);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        i = append_escape(text, raw, i + 1, digits, 16) - 1;
      } else if (c >= '0' && c <= '7') {
        i = append_escape(text, raw, i, std::min<size_t>(3, raw.find_first_not_of("01234567", i) - i), 8) - 1;
      } else if (c == 'N') {
        fail("expected an escape such as \\u2028, got \\N, which is not supported");
      } else if (c != '\n') {
        text.push_back('\\');
        text.push_back(c);
      }
    }
    return text;
  }

  size_t append_escape(std::string& text, std::string_view raw, size_t at, size_t digits, int base) const {
    const std::string_view number = raw.substr(at, digits);
    const auto is_digit_of_base = [base](char c) {
      return is_decimal(c) ? c - '0' < base : base == 16 && ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    };
    if ((base == 16 && number.size() != digits) || !std::all_of(number.begin(), number.end(), is_digit_of_base)) {
      fail(fmt::format("expected {} digits after an escape, got '{}'", digits, number));
    }
    const auto point = std::stoul(std::string(number), nullptr, base);
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
      fail("expected a Unicode character in an escape, got none");
    append_utf8(text, static_cast<char32_t>(point));
    return at + number.size();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalize_newlines(source)).run(); }

}  // namespace spillway::text::jinja
