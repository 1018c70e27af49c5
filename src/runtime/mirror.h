// Exchanges data between the host and a device with memory of its own between sections: the batch values in, the
// results out, through pinned host memory. This is small beside the arenas: tokens and labels, a loss, a norm, logits
// of the next tokens.
//
// After construction nothing is allocated.
#pragma once

#include <vector>

#include "backend/arena.h"
#include "runtime/loaded_program.h"

namespace spillway {

class Mirror {
 public:
  // Borrows `loaded`, which must outlive the mirror.
  explicit Mirror(LoadedProgram& loaded);

  // Returns the host's copy of a batch value, which from now on counts as changed. REQUIRES: it is a batch value.
  [[nodiscard]] TensorView home(ValueId id);
  // Returns a result of a section that has finished, while no other has begun. A large one is fetched now, on the first
  // request.
  [[nodiscard]] TensorView result(size_t index);

  // Sends the batch values that this section reads and that have changed since they were last sent.
  void send_batch(SectionId section);
  // Fetches the results of a section that has finished, except for large ones, which may never be requested.
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
  int64_t top_ = 0;  // the end of the memory that copies have taken
  Arena memory_;
  Device::Pinned pinned_;
};

}  // namespace spillway
