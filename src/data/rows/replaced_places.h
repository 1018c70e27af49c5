// Locates the parts of a conversation in its rendered text, by rendering it with parts replaced.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/index.h"

namespace spillway::data {

// A half-open range of bytes or of tokens.
struct Range {
  int64_t begin = 0, end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// Two stand-ins without a common first or last character: a stand-in that happens to share an edge with the text around
// it would make the part look smaller.
inline constexpr std::array<const char*, 2> kStandIns = {"[[dummy_message]]", "zzdummymessagezz"};

// Returns the part of `whole` that differs from `other`.
template <typename Text>
[[nodiscard]] Range difference(const Text& whole, const Text& other) {
  const auto limit = static_cast<int64_t>(std::min(whole.size(), other.size()));
  int64_t begin = 0;
  while (begin < limit && nth(whole, begin) == nth(other, begin)) ++begin;
  int64_t same = 0;
  while (same < limit - begin && nth(whole, std::ssize(whole) - 1 - same) == nth(other, std::ssize(other) - 1 - same))
    ++same;
  return {begin, static_cast<int64_t>(whole.size()) - same};
}

// Returns the union of the differences with both stand-ins.
template <typename Text, typename RenderWith>
[[nodiscard]] Range difference_with_stand_ins(const Text& whole, const RenderWith& render) {
  Range result{static_cast<int64_t>(whole.size()), 0};
  for (const char* stand_in : kStandIns) {
    const Range one = difference(whole, render(stand_in));
    result = {std::min(result.begin, one.begin), std::max(result.end, one.end)};
  }
  return result;
}

// Renders the conversation with some parts, in ascending order, replaced by these texts. May throw InputError.
using RenderReplaced = std::function<std::string(std::span<const size_t> parts, std::span<const std::string> texts)>;

// Returns the bytes of `text` in which each of `parts` parts lies: the difference when that part alone is replaced, or
// an empty range.
//
// Rendering once per part would take time quadratic in a conversation's length. Instead many parts are replaced at
// once, in about 4 log2(parts) ways, such that for every two parts one way replaces the first and keeps the second (the
// bits of their numbers). If the text between the stand-ins is always found in `text`, in one place only, and always at
// the same places, then no part changes how another is rendered, and the places are those that replacing one part at a
// time would give. Otherwise the parts are searched in two halves, and in the end one by one.
[[nodiscard]] std::vector<Range> find_replaced(const std::string& text, size_t parts, const RenderReplaced& render);

}  // namespace spillway::data
