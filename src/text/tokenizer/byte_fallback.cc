#include "text/tokenizer/byte_fallback.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::text {

std::array<int32_t, 256> byte_token_ids(const Vocabulary& vocabulary) {
  std::array<int32_t, 256> ids;
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    ids[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  return ids;
}

bool append_byte_tokens(const std::array<int32_t, 256>& byte_ids, std::string_view text, std::vector<int32_t>& ids) {
  const auto id = [&](char c) { return byte_ids[static_cast<unsigned char>(c)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char c) { return id(c) >= 0; })) return false;
  for (const char c : text) ids.push_back(id(c));
  return true;
}

std::optional<char> byte_of_token(std::string_view token) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = digit(token[3]), low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

}  // namespace spillway::text
