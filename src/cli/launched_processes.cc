#include "cli/launched_processes.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace spillway {

void check_launched_alone() {
  // Open MPI's, MPICH's, Slurm's and torchrun's. A process that does not call MPI_Init has them, too.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE"}) {
    const char* const said = std::getenv(variable);
    if (said == nullptr) continue;
    const std::string_view text = said;
    int64_t processes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), processes);
    if (error != std::errc() || end != text.data() + text.size() || processes <= 1) continue;
    throw input_error(variable,
                      "expected one process, got {}; several ranks are not yet supported: start it alone, without "
                      "mpirun, srun or torchrun, or with one task",
                      processes);
  }
}

}  // namespace spillway
