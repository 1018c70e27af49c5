// MPI's errors as ours.
#pragma once

#include <mpi.h>

#include <array>
#include <string_view>

#include "base/error.h"

namespace spillway {

// Throws MachineError if `code`, which a function of MPI has returned, is none of success.
inline void check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw machine_error("MPI", "expected {} to succeed, got {}; see what mpirun said", what, text.data());
}

}  // namespace spillway
