// Finds the GPU of tests. A build without CUDA has no such tests: they are declared with `* doctest::skip(!kHasCuda)`.
// In one with CUDA they fail if the machine has a GPU that cannot be used; `./test --gpu` sets SPILLWAY_REQUIRE_GPU, so
// that none of them passes without a GPU.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "backend/device.h"

namespace spillway::testing {

#ifdef SPILLWAY_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

// By the files of its driver, or of WSL's.
inline bool machine_has_gpu() {
  std::error_code error;
  return std::filesystem::exists("/dev/nvidiactl", error) || std::filesystem::exists("/dev/dxg", error);
}

// Where none can be used, the running test fails if the machine has one or one is required, and otherwise says so,
// once. Threads: that of the test.
inline bool has_gpu() {
  static const GpuSurvey survey = survey_gpus();
  if (survey.gpus > 0) return true;
  const std::string problem = survey.missing.empty() ? "this program was built without CUDA" : survey.missing[0].why;
  if (std::getenv("SPILLWAY_REQUIRE_GPU") || machine_has_gpu()) FAIL("no GPU: " << problem);
  static const void* told = nullptr;
  const void* const test = doctest::getContextOptions()->currentTest;
  if (std::exchange(told, test) != test) MESSAGE("skipped, no GPU: " << problem);
  return false;
}

// Null where there is none.
inline std::shared_ptr<Device> find_gpu() { return has_gpu() ? open_device("cuda") : nullptr; }

}  // namespace spillway::testing
