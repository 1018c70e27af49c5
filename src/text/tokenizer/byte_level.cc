#include "text/tokenizer/byte_level.h"

#include <array>

#include "base/index.h"
#include "base/utf8.h"

namespace spillway::text {
namespace {

constexpr bool is_visible(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

// Visible Latin-1 stands for itself; the rest follows from U+0100 on, in order.
constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> result{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) nth(result, byte) = is_visible(byte) ? static_cast<char32_t>(byte) : next++;
  return result;
}
constexpr std::array<char32_t, 256> kCharacters = make_characters();
constexpr char32_t kAlphabetEnd = 0x144;

constexpr std::array<int16_t, kAlphabetEnd> make_bytes() {
  std::array<int16_t, kAlphabetEnd> result{};
  for (int16_t& byte : result) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) result[kCharacters[byte]] = static_cast<int16_t>(byte);
  return result;
}
constexpr std::array<int16_t, kAlphabetEnd> kBytes = make_bytes();

}  // namespace

void append_byte_characters(std::string& out, std::string_view text) {
  for (const char c : text) append_utf8(out, kCharacters[static_cast<unsigned char>(c)]);
}

void append_character_bytes(std::string& out, std::string_view text) {
  const size_t start = out.size();
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c >= kAlphabetEnd || kBytes[c] < 0) {
      out.resize(start);
      out += text;
      return;
    }
    out.push_back(static_cast<char>(kBytes[c]));
  }
}

}  // namespace spillway::text
