// Explains why a run's steps took another time than predicted.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct ComparedSteps {
  double predicted_seconds = 0, measured_seconds = 0;              // of a step; measured 0: none has ended
  double predicted_stall_seconds = 0, measured_stall_seconds = 0;  // of those, computation waits for other lanes
  double planned_tokens = 0, mean_tokens = 0;                      // of a step
  // The CPU time per wall time of threads that wanted a CPU (runtime/cpu_share.h): in the run, and when the machine was
  // measured.
  double cpu_share = 1, cpu_share_when_measured = 1;
  bool has_other_ranks = false;  // for which computation may wait, too
};

// Returns sentences without a full stop, for people; none if the times differ by less than a tenth, or if nothing known
// explains the difference.
[[nodiscard]] std::vector<std::string> reasons_of_difference(const ComparedSteps& steps);

}  // namespace spillway
