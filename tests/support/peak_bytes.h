// The most bytes that operator new has given out at the same time while a counter lives.
#pragma once

#include <cstdint>

namespace spillway::testing {

class PeakBytes {
 public:
  PeakBytes();
  ~PeakBytes();
  PeakBytes(PeakBytes&&) = delete;

  // Beyond what was given out at construction, of all threads.
  [[nodiscard]] int64_t bytes() const;
};

}  // namespace spillway::testing
