// NCCL: what joins the GPUs of a job. Nothing uses it yet but `doctor`.
#pragma once

#include <string>

namespace spillway::cuda {

// "2.27.3". Opens the library without a GPU. Throws MachineError where it cannot.
[[nodiscard]] std::string find_nccl_version();

}  // namespace spillway::cuda
