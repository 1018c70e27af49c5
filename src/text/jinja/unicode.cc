#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/utf8.h"

namespace spillway::text::jinja {
namespace {

template <typename Map>
std::string map_points(std::string_view text, const Map& map) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Part part = utf8_part(text, at);
    if (part.is_valid) {
      map(result, part.code_point);
    } else {
      result += text.substr(at, part.bytes);
    }
    at += part.bytes;
  }
  return result;
}

utf8proc_category_t category(char32_t point) { return utf8proc_category(static_cast<utf8proc_int32_t>(point)); }

}  // namespace

size_t char_bytes(std::string_view text, size_t at) {
  const Utf8Part part = utf8_part(text, at);
  return part.is_valid ? part.bytes : 1;
}

char32_t code_point(std::string_view text, size_t at) { return utf8_part(text, at).code_point; }

int64_t char_count(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) ++count;
  return count;
}

std::vector<size_t> char_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

size_t find_part(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

bool is_space(char32_t point) {
  if (point < 0x80) return (point >= 9 && point <= 13) || (point >= 0x1C && point <= 0x20);
  return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

std::string_view strip(std::string_view text, bool left, bool right, const std::string_view* chars) {
  const auto goes = [chars](std::string_view character) {
    if (chars == nullptr) return is_space(code_point(character, 0));
    for (size_t at = 0; at < chars->size();) {
      const size_t length = char_bytes(*chars, at);
      if (chars->substr(at, length) == character) return true;
      at += length;
    }
    return false;
  };
  while (left && !text.empty()) {
    const size_t length = char_bytes(text, 0);
    if (!goes(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && (text[start] & 0xC0) == 0x80) --start;
    if (char_bytes(text, start) != text.size() - start) start = text.size() - 1;
    if (!goes(text.substr(start))) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

std::string upper(std::string_view text) {
  return map_points(text, [](std::string& result, char32_t point) {
    // This is the one common letter whose capital is two: utf8proc maps one to one.
    if (point == 0xDF) {
      result += "SS";
    } else {
      append_utf8(result, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(point))));
    }
  });
}

namespace {

bool is_cased(char32_t point) {
  const auto kind = category(point);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

// Returns true for characters that may stand within a word without being a letter with a case (Unicode's
// Case_Ignorable).
bool is_ignored_for_case(char32_t point) {
  constexpr char32_t kMiddle[] = {U'\'', U'.', U':', 0xB7, 0x387, 0x2018, 0x2019, 0x2024, 0x2027};
  const auto kind = category(point);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK ||
         std::find(std::begin(kMiddle), std::end(kMiddle), point) != std::end(kMiddle);
}

// Returns true if the letter at `i` ends a word that has others.
bool ends_word(std::string_view text, const std::vector<size_t>& offsets, size_t i) {
  const auto at = [&](size_t k) { return code_point(text, offsets[k]); };
  size_t before = i, after = i + 1;
  while (before > 0 && is_ignored_for_case(at(before - 1))) --before;
  while (after + 1 < offsets.size() && is_ignored_for_case(at(after))) ++after;
  return before > 0 && is_cased(at(before - 1)) && (after + 1 >= offsets.size() || !is_cased(at(after)));
}

}  // namespace

std::string lower(std::string_view text) {
  constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2, kDottedI = 0x130;
  std::vector<bool> ends;  // of each capital sigma
  if (text.find("\xCE\xA3") != std::string_view::npos) {
    const std::vector<size_t> offsets = char_offsets(text);
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      if (code_point(text, offsets[i]) == kSigma) ends.push_back(ends_word(text, offsets, i));
    }
  }
  size_t sigmas = 0;
  return map_points(text, [&](std::string& result, char32_t point) {
    if (point == kSigma && ends[sigmas++]) {
      append_utf8(result, kFinalSigma);
    } else if (point == kDottedI) {
      result += "i\xCC\x87";
    } else {
      append_utf8(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point))));
    }
  });
}

bool is_alpha(char32_t point) {
  const auto kind = category(point);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
}
bool is_digit(char32_t point) { return category(point) == UTF8PROC_CATEGORY_ND; }
bool is_upper(char32_t point) { return category(point) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t point) { return category(point) == UTF8PROC_CATEGORY_LL; }

bool is_printable(char32_t point) {
  if (point < 0x7F) return point >= 0x20;
  const auto kind = category(point);
  return kind != UTF8PROC_CATEGORY_CC && kind != UTF8PROC_CATEGORY_CF && kind != UTF8PROC_CATEGORY_CS &&
         kind != UTF8PROC_CATEGORY_CO && kind != UTF8PROC_CATEGORY_CN && kind != UTF8PROC_CATEGORY_ZL &&
         kind != UTF8PROC_CATEGORY_ZP && kind != UTF8PROC_CATEGORY_ZS;
}

}  // namespace spillway::text::jinja
