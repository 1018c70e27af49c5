// The workspace of the embedding's gradient on a GPU: where each row of the table occurs.
#pragma once

#include <cstdint>

namespace spillway::ops {

// Where a row of the table occurs among the tokens of a stream, as the GPU's gradient finds it out; zeros where
// nowhere.
struct Occurrence {
  int32_t from_first;  // tokens from its first one to the end of the stream
  int32_t past_last;   // one more than the index of its last one
};

// For the whole vocabulary.
[[nodiscard]] constexpr int64_t occurrences_bytes(int64_t vocabulary) {
  return vocabulary * static_cast<int64_t>(sizeof(Occurrence));
}

}  // namespace spillway::ops
