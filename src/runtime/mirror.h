// What the host and a device with memory of its own exchange between sections: the batch values in, the results out, by
// way of pinned host memory. Small beside the arenas: tokens and labels, a loss, a norm, the logits of one token.
//
// After construction nothing is allocated.
#pragma once

#include <vector>

#include "backend/arena.h"
#include "runtime/loaded_program.h"

namespace spillway {

class Mirror {
 public:
  // `loaded` is borrowed and must outlive the mirror.
  explicit Mirror(LoadedProgram& loaded);

  // The host's copy of a batch value, which from now on counts as changed. REQUIRES: it is one.
  [[nodiscard]] TensorView home(ValueId id);
  [[nodiscard]] TensorView result(size_t index) const { return results_[index].host; }

  // Sends the batch values that have changed since they were sent last and that this section reads.
  void send_batch(SectionId section);
  // Fetches the results of a section that has finished.
  void fetch_results(SectionId section);

 private:
  struct Copy {
    ValueId value = kNone;
    std::byte* device = nullptr;
    TensorView host;
  };
  struct Batch {
    Copy copy;
    std::vector<bool> is_read;  // by section
    bool has_changed = true;
  };
  [[nodiscard]] Copy next_copy(const Operand& operand);
  void find_readers();

  LoadedProgram& loaded_;
  std::vector<Batch> batch_;
  std::vector<Copy> results_;
  int64_t top_ = 0;  // of what copies have taken of the memory
  Arena memory_;
  Device::Pinned pinned_;
};

}  // namespace spillway
