#include "data/token_spans.h"

#include <algorithm>
#include <string>

namespace spillway::data {

std::optional<std::vector<std::pair<int64_t, int64_t>>> token_spans(const Tokenizer& tokenizer, std::string_view text,
                                                                    std::span<const int32_t> ids) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  spans.reserve(ids.size());
  Tokenizer::StreamDecoder decoder(tokenizer, false);
  size_t at = 0;
  size_t open = 0;  // ids whose character is not complete yet
  for (const int32_t id : ids) {
    const std::string piece = decoder.push(id);
    if (text.substr(at, piece.size()) != piece) return std::nullopt;
    const auto begin = static_cast<int64_t>(at);
    at += piece.size();
    spans.emplace_back(begin, static_cast<int64_t>(at));
    if (piece.empty()) {
      ++open;
      continue;
    }
    for (; open > 0; --open) spans[spans.size() - 1 - open].second = static_cast<int64_t>(at);
  }
  if (at != text.size() || open > 0) return std::nullopt;
  return spans;
}

std::optional<std::vector<int32_t>> mask_of_ranges(const Tokenizer& tokenizer, std::string_view text,
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
