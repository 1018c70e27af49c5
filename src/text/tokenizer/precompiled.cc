#include "text/tokenizer/precompiled.h"

#include <utf8proc.h>

#include <cstring>

#include "base/utf8.h"

namespace spillway::text {
namespace {

constexpr std::string_view kAdvice = "compare with the published file";
constexpr size_t kShortGrapheme = 6;  // bytes; a longer one is never looked up as a whole

std::string decode_base64(const JsonField& field) {
  const std::string& text = field.string();
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) throw field.bad("base64", kAdvice);
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    result.push_back(static_cast<char>(bits >> count));
  }
  return result;
}

}  // namespace

Precompiled::Precompiled(const JsonField& charsmap) {
  if (charsmap.is_null()) return;
  const std::string table = decode_base64(charsmap);
  uint32_t trie_bytes = 0;
  if (table.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, table.data(), sizeof trie_bytes);
  if (trie_bytes % sizeof(uint32_t) != 0 || table.size() < sizeof trie_bytes + trie_bytes) {
    throw charsmap.bad("the size of a trie and the trie", kAdvice);
  }
  units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), table.data() + sizeof trie_bytes, trie_bytes);
  texts_ = table.substr(sizeof trie_bytes + trie_bytes);
  if (!is_valid_utf8(texts_)) throw charsmap.bad("replacements in UTF-8", kAdvice);
  for (size_t c = 0; c < is_replaced_.size(); ++c) {
    const char text = static_cast<char>(c);
    is_replaced_[c] = find({&text, 1}).has_value();
  }
}

std::optional<std::string_view> Precompiled::find(std::string_view text) const {
  const auto offset = [](uint32_t unit) { return size_t{unit >> 10} << ((unit & 1U << 9) >> 6); };
  if (units_.empty()) return std::nullopt;
  size_t node = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    const uint32_t unit = units_[node];
    if ((unit & (1U << 31 | 0xFF)) != byte) return std::nullopt;
    node ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (node >= units_.size()) return std::nullopt;
    const size_t begin = units_[node] & ~(1U << 31);
    if (begin >= texts_.size() || (texts_[begin] & 0xC0) == 0x80) return std::nullopt;
    return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

size_t Precompiled::grapheme_end(std::string_view text, size_t begin) const {
  size_t end = begin;
  utf8proc_int32_t state = 0;
  char32_t last = next_code_point(text, end);
  for (size_t next = end; end < text.size(); end = next) {
    const char32_t c = next_code_point(text, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(c), &state))
      break;
    last = c;
  }
  return end;
}

void Precompiled::append(std::string_view part, std::string& out) const { out.append(find(part).value_or(part)); }

void Precompiled::apply(std::string_view text, const TextBudget& budget, std::string& out) const {
  const auto is_plain = [&](size_t i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    return byte < is_replaced_.size() && !is_replaced_[byte] && byte != '\r';
  };
  for (size_t begin = 0; begin < text.size();) {
    if (is_plain(begin) && (begin + 1 == text.size() || static_cast<unsigned char>(text[begin + 1]) < 0x80)) {
      out.push_back(text[begin++]);  // ASCII does not join
      continue;
    }
    budget.check(out.size());
    const size_t end = grapheme_end(text, begin);
    const std::string_view grapheme = text.substr(begin, end - begin);
    begin = end;
    if (grapheme.size() < kShortGrapheme) {
      if (const auto replacement = find(grapheme)) {
        out.append(*replacement);
        continue;
      }
    }
    for (size_t i = 0; i < grapheme.size();) {
      const size_t length = utf8_length(static_cast<unsigned char>(grapheme[i]));
      append(grapheme.substr(i, length), out);
      i += length;
    }
  }
}

}  // namespace spillway::text
