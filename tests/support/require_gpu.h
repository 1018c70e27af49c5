// Whether tests use a GPU. `./test --gpu` sets SPILLWAY_REQUIRE_GPU, so that none of them passes without one.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "backend/device.h"

namespace spillway::testing {

// Fails the running test where there is no GPU although one is required. Threads: that of the test.
inline bool has_gpu() {
  static const GpuSurvey survey = survey_gpus();
  if (survey.gpus > 0) return true;
  const std::string problem = survey.missing.empty() ? "this program was built without CUDA" : survey.missing[0].why;
  if (std::getenv("SPILLWAY_REQUIRE_GPU")) FAIL("no GPU: " << problem);
  static bool is_said = false;
  if (!std::exchange(is_said, true)) MESSAGE("skipped, no GPU: " << problem);
  return false;
}

}  // namespace spillway::testing
