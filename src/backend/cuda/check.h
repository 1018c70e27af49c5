// Errors of the CUDA runtime as MachineErrors. Kernels call check_launch after a launch and nothing else.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace spillway::cuda {

// Throws MachineError `[cuda] expected WHAT, got 'name: text'; ...` unless the call succeeded. `what` reads "to copy 3
// MiB to the GPU".
void check(cudaError_t error, std::string_view what);

// Throws MachineError with the operation's name where its kernel could not be launched. Does not wait for it.
void check_launch(std::string_view operation);

}  // namespace spillway::cuda
