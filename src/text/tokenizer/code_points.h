// Classifies characters: Unicode classes as the `tokenizers` library sees them, and sets of code points.
//
// The library's parts follow different Unicode versions (tools/make_unicode_tables.py says which), and ids depend on
// them, so no function here calls the C library or utf8proc. Safe from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::text {

constexpr char32_t kMaxCodePoint = 0x10FFFF;

// A range of code points. Both ends belong to it.
struct CodePointRange {
  char32_t first, last;
  friend auto operator<=>(const CodePointRange&, const CodePointRange&) = default;
};

// A set of code points as sorted ranges that neither touch nor overlap.
class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  static CodePointSet of(char32_t c) { return CodePointSet({{c, c}}); }

  [[nodiscard]] std::span<const CodePointRange> ranges() const { return ranges_; }
  [[nodiscard]] bool contains(char32_t c) const;
  [[nodiscard]] CodePointSet united(const CodePointSet& other) const;
  [[nodiscard]] CodePointSet intersected(const CodePointSet& other) const;
  [[nodiscard]] CodePointSet complement() const;
  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<CodePointRange> ranges_;
};

// Returns the set of \p{name} for a general category (`L`, `Lu`, `Letter`), a common script (`Han`) or `Any`; nullopt
// if unknown.
[[nodiscard]] std::optional<CodePointSet> property_set(std::string_view name);
// Return \s, \d and \w of the library's regular expressions.
[[nodiscard]] const CodePointSet& whitespace_set();
[[nodiscard]] const CodePointSet& digit_set();
[[nodiscard]] const CodePointSet& regex_word_set();

[[nodiscard]] bool is_whitespace(char32_t c);
// Returns true for the digits of the `Digits` pre-tokenizer: Nd, Nl and No.
[[nodiscard]] bool is_numeric(char32_t c);
// Returns true for the punctuation of the `Punctuation` pre-tokenizer: ASCII's and category P of Unicode 9.
[[nodiscard]] bool is_punctuation(char32_t c);
// Returns true for word characters of `single_word` added tokens and the `Whitespace` pre-tokenizer.
[[nodiscard]] bool is_word(char32_t c);
// Returns true for characters that joined Unicode after version 9 with a combining class or a decomposition; the
// library's normal forms leave them alone.
[[nodiscard]] bool is_unnormalized(char32_t c);

// Returns true for characters that `StripAccents` removes: category M of an older Unicode.
[[nodiscard]] bool is_mark(char32_t c);
// Return true for characters that `BertNormalizer` removes as accents (category Mn of an older Unicode), and as no text
// at all: controls, private use, U+FFFD.
[[nodiscard]] bool is_nonspacing_mark(char32_t c);
[[nodiscard]] bool is_noise(char32_t c);

void append_lowercase(std::string& text, char32_t c);

}  // namespace spillway::text
