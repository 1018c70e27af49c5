// Finds NCCL, which connects the GPUs of a job. Only `doctor` uses it so far.
#pragma once

#include <string>

namespace spillway::cuda {

// Returns the version, "2.27.3". Opens the library without a GPU. Throws MachineError if it cannot.
[[nodiscard]] std::string find_nccl_version();

}  // namespace spillway::cuda
