// Replays sections that consist of kernels alone by one call to the compute lane's queue, as a GPU's graphs allow.
//
// The kernels of a small model, or of one token, take a GPU no longer than the host needs to launch them
// (docs/decisions/0011-graphs-of-kernels.md). A section runs for five steps as any other, which measures its
// instructions; then its kernels are captured, with the addresses of the arena and the number of rows, and from then on
// replayed. Data that changes from batch to batch is in device memory and read there. Sections with transfers are not
// captured: their lanes meet the host, or move data that takes longer than a launch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/lane_profile.h"
#include "runtime/loaded_program.h"

namespace spillway {

class CapturedSections {
 public:
  // Borrows both.
  CapturedSections(LoadedProgram& loaded, LaneProfile& profile);

  // Replays the section and returns when it has finished, capturing it first if it is time to. Returns false if the
  // caller must run it otherwise. Throws MachineError if its work fails.
  [[nodiscard]] bool run(const SectionRange& section);

 private:
  struct Kept {
    std::vector<int64_t> rows;  // of each axis
    std::unique_ptr<CapturedWork> work;
  };
  struct Candidate {
    SectionRange section;
    bool follows_rows = false;
    int64_t runs_before = 0;    // that are still to come before it is captured
    std::vector<int64_t> rows;  // of the last runs that were not replayed,
    int64_t runs = 0;           // and their number
    std::vector<Kept> kept;
  };

  // Returns null if it is not time to capture the section yet, or if that is impossible.
  [[nodiscard]] const CapturedWork* work_for(Candidate& candidate);
  void replay(const CapturedWork& work);

  LoadedProgram& loaded_;
  LaneProfile& profile_;
  std::unique_ptr<DeviceEvent> begin_, end_;
  std::vector<Candidate> candidates_;
};

}  // namespace spillway
