#include "data/rows/token_spans.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace spillway::data {

namespace {

using Spans = std::vector<std::pair<int64_t, int64_t>>;

// Returns true for bytes whose last character goes on in the next token.
bool ends_inside_character(std::string_view bytes) {
  size_t tail = 0;  // of the last character
  while (tail < std::min<size_t>(bytes.size(), 4)) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - ++tail]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return tail < length;
  }
  return false;
}

// Returns true if a character of the text begins at the byte, or the text ends there.
bool begins_character(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

// Finds the spans by the text that each id adds to the decoded text; exact for byte-level vocabularies.
std::optional<Spans> spans_by_decoding(const text::Tokenizer& tokenizer, std::string_view text,
                                       std::span<const int32_t> ids) {
  Spans spans;
  spans.reserve(ids.size());
  text::Tokenizer::StreamDecoder decoder(tokenizer, false);
  size_t at = 0;
  size_t open = 0;  // ids whose character is not complete yet
  for (const int32_t id : ids) {
    const std::string piece = decoder.push(id);
    if (text.substr(at, piece.size()) != piece) return std::nullopt;
    size_t begin = at;
    at += piece.size();
    if (piece.empty()) {
      spans.emplace_back(static_cast<int64_t>(begin), static_cast<int64_t>(at));
      ++open;
      continue;
    }
    const std::string bytes = tokenizer.token_bytes(id);
    // The decoder holds byte tokens back until another one comes, whose own bytes are the last, then.
    const bool has_own = open > 0 && bytes.size() < piece.size() && begins_character(text, at - bytes.size());
    if (has_own) begin = at - bytes.size();
    for (; open > 0; --open) spans[spans.size() - open].second = static_cast<int64_t>(has_own ? begin : at);
    spans.emplace_back(static_cast<int64_t>(begin), static_cast<int64_t>(at));
    open = ends_inside_character(bytes) ? 1 : 0;
  }
  if (at != text.size() || open > 0) return std::nullopt;
  return spans;
}

// A SentencePiece token as text: U+2581 is a space, <0x0A> a byte.
std::string piece_text(const std::string& token) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>') {
    return std::string(1, static_cast<char>(std::strtol(token.substr(3, 2).c_str(), nullptr, 16)));
  }
  std::string text = token;
  for (size_t at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace, at + 1))
    text.replace(at, kSpace.size(), 1, ' ');
  return text;
}

// Finds the spans by the tokens as the vocabulary spells them. A space in front that the text does not have was added
// by the tokenizer, and has no bytes.
std::optional<Spans> spans_by_pieces(const text::Tokenizer& tokenizer, std::string_view text,
                                     std::span<const int32_t> ids) {
  Spans spans;
  spans.reserve(ids.size());
  size_t at = 0;
  for (const int32_t id : ids) {
    std::string piece = piece_text(tokenizer.id_to_token(id));
    if (!text.substr(at).starts_with(piece)) {
      if (!piece.starts_with(' ')) return std::nullopt;
      piece.erase(0, 1);
      if (!text.substr(at).starts_with(piece)) return std::nullopt;
    }
    spans.emplace_back(static_cast<int64_t>(at), static_cast<int64_t>(at + piece.size()));
    at += piece.size();
  }
  if (at != text.size()) return std::nullopt;
  return spans;
}

}  // namespace

std::optional<Spans> token_spans(const text::Tokenizer& tokenizer, std::string_view text,
                                 std::span<const int32_t> ids) {
  auto spans = spans_by_decoding(tokenizer, text, ids);
  return spans ? std::move(spans) : spans_by_pieces(tokenizer, text, ids);
}

std::optional<std::vector<int32_t>> mask_of_ranges(const text::Tokenizer& tokenizer, std::string_view text,
                                                   std::span<const int32_t> ids,
                                                   std::span<const std::pair<int64_t, int64_t>> ranges) {
  const auto spans = token_spans(tokenizer, text, ids);
  if (!spans) return std::nullopt;
  std::vector<int32_t> mask(ids.size(), 0);
  for (const auto& [begin, end] : ranges) {
    if (begin >= end) continue;
    const auto first =
        std::partition_point(spans->begin(), spans->end(), [b = begin](const auto& span) { return span.second <= b; });
    const auto last = std::partition_point(first, spans->end(), [e = end](const auto& span) { return span.first < e; });
    std::fill(mask.begin() + (first - spans->begin()), mask.begin() + (last - spans->begin()), 1);
  }
  return mask;
}

}  // namespace spillway::data
