// Whether tests use a GPU. `./test --gpu` sets SPILLWAY_REQUIRE_GPU, so that none of them passes without one.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "backend/device.h"

namespace spillway::testing {

// Where there is none, the running test fails if one is required, and otherwise says so, once. Threads: that of the
// test.
inline bool has_gpu() {
  static const GpuSurvey survey = survey_gpus();
  if (survey.gpus > 0) return true;
  const std::string problem = survey.missing.empty() ? "this program was built without CUDA" : survey.missing[0].why;
  if (std::getenv("SPILLWAY_REQUIRE_GPU")) FAIL("no GPU: " << problem);
  static const void* told = nullptr;
  const void* const test = doctest::getContextOptions()->currentTest;
  if (std::exchange(told, test) != test) MESSAGE("skipped, no GPU: " << problem);
  return false;
}

// Null where there is none.
inline std::shared_ptr<Device> find_gpu() { return has_gpu() ? open_device("cuda") : nullptr; }

}  // namespace spillway::testing
