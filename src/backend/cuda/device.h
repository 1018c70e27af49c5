// Finds and opens GPUs as Devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/gpu_library.h"

namespace spillway::cuda {

struct Presence {
  int gpus = 0;
  std::string problem;  // the reason if there are none: no driver, one that is too old, no device
};
[[nodiscard]] Presence find_gpus();

// A library that is opened when it is first needed.
struct LibraryState {
  std::string name;
  FoundLibrary found;  // without a version: it could not be opened
  std::string problem;
};
// Needs no GPU.
[[nodiscard]] std::vector<LibraryState> find_libraries();

// Makes the GPU's context and opens the libraries, so that free_bytes() is what remains for arenas. Throws MachineError
// if either fails. REQUIRES: ordinal < find_gpus().gpus.
[[nodiscard]] std::shared_ptr<Device> open_gpu(int ordinal);

}  // namespace spillway::cuda
