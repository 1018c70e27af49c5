// Sections that are kernels alone, put into the compute lane's queue by one call: what a GPU's graphs are for.
//
// The kernels of a small model, or of one token, take a GPU no longer than the host needs to launch them
// (docs/decisions/0011-graphs-of-kernels.md). A section runs for five steps as any other, which measures its
// instructions; then its kernels are captured, with the addresses of the arena and the number of rows, and from then on
// replayed. What changes from batch to batch is in device memory and read there. Sections with transfers are not
// captured: their lanes meet the host, or move what takes longer than a launch.
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

  // Replays the section and returns when it has finished, capturing it where it is time to. False: it is to be run
  // otherwise. Throws MachineError where its work fails.
  [[nodiscard]] bool run(const SectionRange& section);

 private:
  struct Kept {
    std::vector<int64_t> rows;  // of each axis
    std::unique_ptr<CapturedWork> work;
  };
  struct Candidate {
    SectionRange section;
    bool follows_rows = false;
    int64_t runs_before = 0;    // it is captured
    std::vector<int64_t> rows;  // of the last runs that were not replayed,
    int64_t runs = 0;           // and their number
    std::vector<Kept> kept;
  };

  // Null where it is not time to capture the section yet, or it cannot be.
  [[nodiscard]] const CapturedWork* work_for(Candidate& candidate);
  void replay(const CapturedWork& work);

  LoadedProgram& loaded_;
  LaneProfile& profile_;
  std::unique_ptr<DeviceEvent> begin_, end_;
  std::vector<Candidate> candidates_;
};

}  // namespace spillway
