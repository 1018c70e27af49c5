// What the host and a device with memory of its own exchange between sections: the batch values in, the results out, by
// way of pinned host memory. Small beside the arenas: tokens and labels, a loss, a norm, logits of the next tokens.
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
  // A result of a section that has finished, while no other has begun. A large one is fetched now, when it is asked for
  // first.
  [[nodiscard]] TensorView result(size_t index);

  // Sends the batch values that have changed since they were sent last and that this section reads.
  void send_batch(SectionId section);
  // Fetches the results of a section that has finished, but for large ones: nobody may ask for them.
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
  struct Result {
    Copy copy;
    bool is_here = false;
  };
  [[nodiscard]] Copy next_copy(const Operand& operand);
  void find_readers();
  static void fetch(Result& result, DeviceQueue& queue);

  LoadedProgram& loaded_;
  std::vector<Batch> batch_;
  std::vector<Result> results_;
  int64_t top_ = 0;  // of what copies have taken of the memory
  Arena memory_;
  Device::Pinned pinned_;
};

}  // namespace spillway
