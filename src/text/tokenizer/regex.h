// Split patterns, matched as Oniguruma does in the `tokenizers` library, by PCRE2's JIT compiler.
//
// A pattern only distinguishes as many kinds of characters as its sets do, a few dozen. So each code point is replaced
// by one byte that names its kind, and PCRE2 matches byte classes: no Unicode tables at match time, no difference
// between PCRE2 versions, and CJK text is as fast as ASCII.
//
//   Regex regex(R"(\p{L}+|\s+)", "pre_tokenizer.pattern");
//   RegexScratch scratch;
//   regex.find_all(text, scratch, [&](size_t begin, size_t end) { ... });
//
// A Regex may be shared by threads, a RegexScratch not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace spillway::text {

struct RegexScratch {
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  std::vector<uint8_t> kinds;
  pcre2_real_match_data_8* match_data;
};

class Regex {
 public:
  // Throws InputError at `where` for a pattern that cannot be read or is too large.
  Regex(std::string_view pattern, std::string_view where);

  // Calls found(begin, end), in bytes, for each match from left to right; matches do not overlap, and an empty one does
  // not follow directly upon another. REQUIRES: `text` is valid UTF-8. Throws InputError if the pattern backtracks
  // without end.
  template <typename Found>
  void find_all(std::string_view text, RegexScratch& scratch, const Found& found) const {
    if (text.empty()) return;
    const bool ascii = to_kinds(text, scratch.kinds);
    size_t search = 0, last_end = 0, byte = 0, character = 0;
    bool matched = false;
    Match match;
    while (search <= scratch.kinds.size() && find(scratch, search, match)) {
      if (match.begin == match.end && matched && match.end == last_end) {
        search = last_end + 1;
        continue;
      }
      search = last_end = match.end;
      matched = true;
      if (ascii) {
        found(match.begin, match.end);
        continue;
      }
      for (; character < match.begin; ++character) byte += utf8_length(static_cast<unsigned char>(text[byte]));
      const size_t begin = byte;
      for (; character < match.end; ++character) byte += utf8_length(static_cast<unsigned char>(text[byte]));
      found(begin, byte);
    }
  }

 private:
  struct Match {
    size_t begin, end;  // in characters
  };
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  // Returns true if `text` is ASCII, so that bytes are characters.
  bool to_kinds(std::string_view text, std::vector<uint8_t>& kinds) const;
  bool find(RegexScratch& scratch, size_t from, Match& match) const;
  [[nodiscard]] uint8_t kind(char32_t c) const { return kinds_[size_t{pages_[c >> 8]} << 8 | (c & 0xFF)]; }

  std::string where_;
  std::vector<uint16_t> pages_;  // [0x1100] index into kinds_, in pages of 256
  std::vector<uint8_t> kinds_;
  std::shared_ptr<pcre2_real_code_8> code_;
  bool jit_ = false;
};

}  // namespace spillway::text
