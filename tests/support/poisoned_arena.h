// Where the tests of operations put a kernel's buffers: far apart, with NaN between them and behind the rows of a short
// stream, as another value of the plan might have left it there. A kernel that lets it into a result, or writes to it,
// fails its case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "backend/kernel.h"

namespace spillway::ops::testing {

class PoisonedArena {
 public:
  // Between host memory and the arena's, either way; the next one sees what it did.
  using Copy = std::function<void(void* to, const void* from, int64_t bytes)>;

  // Borrows the memory, 256-byte aligned.
  PoisonedArena(std::byte* memory, int64_t bytes, Copy copy);

  // Calls kernel() with all that `args` point to in the arena instead, and brings it back; its `workspace_bytes` are
  // NaN before. Fails the case unless everything around it is NaN still.
  void run(const KernelArgs& args, int64_t workspace_bytes, const std::function<void(const KernelArgs&)>& kernel);

 private:
  struct Buffer {
    std::byte* place;
    int64_t bytes;
  };

  // NaN from what is used so far to `end`.
  void add_gap(int64_t end);
  // The place of a buffer of the host's, the same one each time it is asked for.
  [[nodiscard]] std::byte* take(std::byte* host, int64_t bytes);
  [[nodiscard]] std::vector<TensorView> take(std::span<const TensorView> views);
  [[nodiscard]] std::byte* take_poisoned(int64_t bytes);
  void bring_back();

  std::byte* memory_;
  int64_t size_, used_ = 0;
  Copy copy_;
  std::vector<Buffer> gaps_;
  std::map<std::byte*, Buffer> buffers_;  // by their place on the host
};

}  // namespace spillway::ops::testing
