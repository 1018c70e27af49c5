#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/python_regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/text.h"

namespace spillway::text {
namespace {

constexpr uint32_t kMatchLimit = 20'000'000;  // backtracking steps of one match

// Rewrites a Python expression as one of PCRE2.
class Translation {
 public:
  Translation(std::string_view pattern, std::string_view where) : rest_(pattern), where_(where) {}

  std::string translate() {
    while (!rest_.empty()) {
      if (rest_.front() == '\\') {
        escape();
      } else if (is_in_set_) {
        member_of_set();
      } else {
        structure();
      }
    }
    return std::move(result_);
  }

 private:
  void copy(size_t length) {
    length = std::min(length, rest_.size());
    result_ += rest_.substr(0, length);
    rest_.remove_prefix(length);
  }
  void replace(size_t length, std::string_view with) {
    rest_.remove_prefix(length);
    result_ += with;
  }
  [[noreturn]] void fail(size_t length) const {
    throw input_error(where_, "expected a regular expression of Python's, got one with {}; rewrite it",
                      quote(std::string(rest_.substr(0, length))));
  }

  void escape() {
    const char next = rest_.size() > 1 ? rest_[1] : '\0';
    if (next == 'Z') return replace(2, "\\z");
    if (next == 'v') return replace(2, "\\x0B");
    if (next == 'u' || next == 'U') return code_point(next == 'u' ? 4 : 8);
    const bool is_letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    constexpr std::string_view kKnown = "abBAdDfnrsStwWx";
    if (is_letter && kKnown.find(next) == std::string_view::npos) fail(2);
    copy(2);
  }

  // Translates \u and \U with so many digits.
  void code_point(size_t digits) {
    const std::string_view number = rest_.substr(2, digits);
    if (number.size() < digits || number.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      fail(2 + digits);
    result_ += "\\x{" + std::string(number) + "}";
    rest_.remove_prefix(2 + digits);
  }

  void member_of_set() {
    const bool first = result_.size() == set_begin_;
    if (rest_.front() == ']' && !first) is_in_set_ = false;
    if (rest_.front() == '[') return replace(1, "\\[");  // no [:class:]
    copy(1);
  }

  void structure() {
    if (rest_.front() == '[') {
      copy(rest_.starts_with("[^") ? 2 : 1);
      is_in_set_ = true;
      set_begin_ = result_.size();
    } else if (rest_.front() == '(') {
      group();
    } else if (rest_.starts_with("{,")) {
      const size_t end = rest_.find_first_not_of("0123456789", 2);
      const bool is_count = end != std::string_view::npos && end > 2 && rest_[end] == '}';
      is_count ? replace(2, "{0,") : copy(1);
    } else {
      copy(1);
    }
  }

  void group() {
    if (rest_.starts_with("(*")) fail(2);
    if (!rest_.starts_with("(?")) return copy(1);
    constexpr std::string_view kKnown = ":=!><#P(imsx-";
    if (rest_.size() < 3 || kKnown.find(rest_[2]) == std::string_view::npos) fail(3);
    if (rest_[2] == 'P' && (rest_.size() < 4 || (rest_[3] != '<' && rest_[3] != '='))) fail(4);
    if (rest_.starts_with("(?<") && (rest_.size() < 4 || (rest_[3] != '=' && rest_[3] != '!'))) fail(4);
    if (rest_.starts_with("(?#")) return copy(rest_.find(')') == std::string_view::npos ? 3 : rest_.find(')') + 1);
    copy(3);
  }

  std::string_view rest_, where_;
  std::string result_;
  bool is_in_set_ = false;
  size_t set_begin_ = 0;
};

}  // namespace

void PythonRegex::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free_8(code); }

PythonRegex::PythonRegex(std::string_view pattern, std::string_view where) : where_(where) {
  const std::string translated = Translation(pattern, where).translate();
  const std::unique_ptr<pcre2_compile_context_8, decltype(&pcre2_compile_context_free_8)> context(
      pcre2_compile_context_create_8(nullptr), pcre2_compile_context_free_8);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, context.get()),
              CodeDeleter());
  if (code_) return;
  PCRE2_UCHAR8 text[200];
  pcre2_get_error_message_8(error, text, sizeof text);
  throw input_error(where, "expected a regular expression, got one that cannot be used ({}); rewrite it",
                    reinterpret_cast<const char*>(text));
}

template <typename Found>
void PythonRegex::each(std::string_view text, const Found& found) const {
  const std::unique_ptr<pcre2_match_data_8, decltype(&pcre2_match_data_free_8)> data(
      pcre2_match_data_create_from_pattern_8(code_.get(), nullptr), pcre2_match_data_free_8);
  const std::unique_ptr<pcre2_match_context_8, decltype(&pcre2_match_context_free_8)> context(
      pcre2_match_context_create_8(nullptr), pcre2_match_context_free_8);
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit_8(context.get(), kMatchLimit);
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer_8(data.get());
  uint32_t options = 0;
  for (size_t from = 0; from <= text.size();) {
    const int result = pcre2_match_8(code_.get(), subject, text.size(), from, options, data.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0)
      throw input_error(where_,
                        "expected a pattern that matches in reasonable time, got one that does not; rewrite it");
    found(offsets, pcre2_get_ovector_count_8(data.get()));
    // After an empty match, a longer one may begin at the same place.
    options = offsets[0] == offsets[1] ? PCRE2_NOTEMPTY_ATSTART : 0;
    from = offsets[1];
  }
}

std::vector<std::vector<std::string>> PythonRegex::find_all(std::string_view text) const {
  std::vector<std::vector<std::string>> matches;
  each(text, [&](const PCRE2_SIZE* offsets, uint32_t count) {
    std::vector<std::string>& groups = matches.emplace_back();
    for (uint32_t i = count > 1 ? 1 : 0; i < count; ++i) {
      const bool took_part = offsets[2 * i] != PCRE2_UNSET;
      groups.emplace_back(took_part ? text.substr(offsets[2 * i], offsets[2 * i + 1] - offsets[2 * i]) : "");
    }
  });
  return matches;
}

std::string PythonRegex::removed(std::string_view text) const {
  std::string rest;
  size_t kept = 0;
  each(text, [&](const PCRE2_SIZE* offsets, uint32_t) {
    rest += text.substr(kept, offsets[0] - kept);
    kept = offsets[1];
  });
  return rest + std::string(text.substr(kept));
}

}  // namespace spillway::text
