// Turns errors of the CUDA runtime into MachineErrors.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace spillway::cuda {

// Throws MachineError `[cuda] expected WHAT, got 'name: text'; ...` unless the call succeeded. `what` reads "to copy 3
// MiB to the GPU".
void check(cudaError_t error, std::string_view what);

}  // namespace spillway::cuda
