#include "report/step_difference.h"

#include <doctest/doctest.h>

using namespace spillway;

namespace {

using Reasons = std::vector<std::string>;

// A step that took `measured` seconds where one second was predicted.
ComparedSteps steps(double measured) {
  return {.predicted_seconds = 1, .measured_seconds = measured, .planned_tokens = 2048, .mean_tokens = 2048};
}

}  // namespace

TEST_CASE("steps about as long as predicted need no reason") {
  ComparedSteps busy = steps(1.09);
  busy.cpu_share = 0.5;
  CHECK(reasons_of_difference(busy).empty());
  CHECK(reasons_of_difference(steps(0)).empty());  // none has ended
}

TEST_CASE("longer steps are laid to other programs and to waiting, where those are what they took") {
  ComparedSteps busy = steps(2);
  busy.cpu_share = 0.52;
  CHECK(reasons_of_difference(busy) ==
        Reasons{"computing threads had 52 % of the CPU time that they wanted: other programs ran"});
  ComparedSteps waiting = steps(2);
  waiting.predicted_stall_seconds = 0.25;
  waiting.measured_stall_seconds = 1;
  CHECK(reasons_of_difference(waiting) ==
        Reasons{"computation waited 1 s of a step for copies or the disk, where 0.25 s were predicted"});
  waiting.has_other_ranks = true;
  CHECK(reasons_of_difference(waiting) ==
        Reasons{"computation waited 1 s of a step for other ranks, copies or the disk, where 0.25 s were predicted"});
  waiting.measured_stall_seconds = 0.5;
  CHECK(reasons_of_difference(waiting).empty());
}

TEST_CASE("shorter steps are laid to a busy machine when it was measured, and to steps with fewer tokens") {
  ComparedSteps shorter = steps(0.5);
  shorter.cpu_share = 0.5;
  CHECK(reasons_of_difference(shorter).empty());
  shorter.cpu_share_when_measured = 0.4;
  shorter.mean_tokens = 1000;
  CHECK(reasons_of_difference(shorter) ==
        Reasons{"when the machine was measured, threads had 40 % of the CPU time that they wanted",
                "steps had 1000 tokens on average, and the prediction is for 2048"});
}
