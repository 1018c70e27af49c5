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

  // The host's copy of a batch value. REQUIRES: it is one.
  [[nodiscard]] TensorView home(ValueId id) const;
  [[nodiscard]] TensorView result(size_t index) const { return results_[index].host; }

  // Puts all batch values into the compute lane's queue, before what a section puts there.
  void send_batch();
  // Fetches the results of a section that has finished.
  void fetch_results(Phase phase);

 private:
  struct Copy {
    ValueId value = kNone;
    std::byte* device = nullptr;
    TensorView host;
  };

  LoadedProgram& loaded_;
  std::vector<Copy> batch_, results_;
  Arena memory_;
  Device::Pinned pinned_;
};

}  // namespace spillway
