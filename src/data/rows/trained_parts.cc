#include "data/rows/trained_parts.h"

#include <algorithm>

#include "base/index.h"
#include "data/rows/token_spans.h"
#include "text/jinja/unicode.h"

namespace spillway::data {
namespace {

// First and last character of a token.
struct Place {
  int64_t begin = 0, end = 0;
};

std::vector<Place> places_of(const text::Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids) {
  const auto spans = token_spans(tokenizer, text, ids);
  if (!spans) return {};
  const std::vector<size_t> offsets = text::jinja::char_offsets(text);
  std::vector<Place> places;
  for (const auto& span : *spans) {
    const auto at = std::upper_bound(offsets.begin(), offsets.end(), static_cast<size_t>(span.first)) - 1;
    places.push_back({at - offsets.begin(), 0});
  }
  // A token reaches to the character before the next one.
  for (size_t i = 0; i < places.size(); ++i)
    places[i].end = i + 1 < places.size() ? places[i + 1].begin - 1 : std::ssize(offsets) - 2;
  return places;
}

// Returns the part with its ends moved to those of tokens; nothing if it contains no token.
std::optional<TrainedPart> to_tokens(const TrainedPart& part, std::span<const Place> places) {
  const auto size = std::ssize(places);
  const auto place = [&](std::ptrdiff_t i) { return nth(places, i); };
  std::ptrdiff_t begin = 0;
  while (begin < size && place(begin).begin < part.begin) ++begin;
  if (begin > 0 && place(begin - 1).end > part.begin) --begin;
  std::ptrdiff_t end = size - 1;
  while (end >= 0 && place(end).end > part.end) --end;
  if (end < size - 1 && place(end + 1).begin < part.end) ++end;
  if (begin > end) return {};
  return TrainedPart{place(begin).begin, place(end).end, part.train};
}

}  // namespace

std::vector<bool> trained_tokens(const text::Tokenizer& tokenizer, std::string_view text,
                                 std::span<const TrainedPart> parts) {
  const std::vector<int32_t> ids = tokenizer.encode(text, false);
  const std::vector<Place> places = places_of(tokenizer, text, ids);
  std::vector<bool> trained(ids.size(), false);
  for (const TrainedPart& part : parts) {
    const auto moved = to_tokens(part, places);
    if (!moved || !moved->train) continue;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].begin >= moved->begin && places[i].end <= moved->end) trained[i] = true;
    }
  }
  return trained;
}

}  // namespace spillway::data
