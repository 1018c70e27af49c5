// A disk with all the faults of a real one at its worst, by a seed: a layer around another back end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "io/disk_backend.h"

namespace spillway::testing {

struct DiskFaults {
  uint64_t seed = 0;
  // Probabilities from 0 to 1, for each block.
  double delay = 0;    // a finished block is held back, so that others overtake it
  double shorten = 0;  // fewer bytes are moved than asked, and the result says so
  double tear = 0;     // a write stops half way, and the result says that all is well
  // The block with this number, from 0 in the order of starting, fails with this error and moves nothing.
  int64_t fail_at = -1;
  int error = 0;
};

class FaultyBackend final : public DiskBackend {
 public:
  FaultyBackend(std::unique_ptr<DiskBackend> inner, const DiskFaults& faults, int32_t depth);

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  void start(int32_t slot, const DiskBlock& block) override;
  [[nodiscard]] std::optional<Completion> finish(Wait wait) override;

 private:
  struct Started {
    int64_t asked = 0;
    int64_t claimed = -1;  // the size in the result if that is wrong; -1: the true one
  };

  bool happens(double chance) { return random_.uniform() < chance; }
  void take(Completion completion);

  std::unique_ptr<DiskBackend> inner_;
  DiskFaults faults_;
  RandomStream random_;
  int64_t started_ = 0, inside_ = 0;  // blocks so far, and those that inner_ has now
  std::vector<Started> by_slot_;
  std::vector<Completion> held_;
};

// Returns a factory for DiskQueueOptions::backend.
[[nodiscard]] MakeDiskBackend with_faults(MakeDiskBackend make, const DiskFaults& faults);

}  // namespace spillway::testing
