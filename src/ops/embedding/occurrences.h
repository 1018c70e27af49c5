// The workspace of the embedding's gradient on a GPU: the occurrences of each row of the table.
#pragma once

#include <cstdint>

namespace spillway::ops {

// The occurrences of a row of the table among the tokens of a stream, as the GPU's gradient finds them; zeros if there
// are none.
struct Occurrence {
  int32_t from_first;  // tokens from its first one to the end of the stream
  int32_t past_last;   // one more than the index of its last one
};

// Returns the bytes for the whole vocabulary.
[[nodiscard]] constexpr int64_t occurrences_bytes(int64_t vocabulary) {
  return vocabulary * static_cast<int64_t>(sizeof(Occurrence));
}

}  // namespace spillway::ops
