// The place of this process among those that a launcher (mpirun, srun) started, from the environment: known before
// MPI_Init, and to a build without MPI, too.
#pragma once

#include <functional>
#include <string>

namespace spillway {

struct Launch {
  int rank = 0, size = 1;              // among all ranks of the job
  int local_rank = 0, local_size = 1;  // among those of this host
  std::string launcher;                // "mpirun"; empty: none, or of one process

  [[nodiscard]] bool is_one_of_several() const { return size > 1; }
};

// Returns the value of a variable, or null.
using Environment = std::function<const char*(const char* name)>;

// Returns the place that the environment says: Open MPI's variables, those of PMI (MPICH's mpiexec) or Slurm's of a
// step of srun, in this order, as mpirun also runs inside of an allocation. Without any, one process. Throws InputError
// if
// - several processes were started by torchrun, `accelerate launch` or `deepspeed`, which start no MPI;
// - srun started several without PMIx;
// - the variables of two launchers disagree, or are no place among so many.
[[nodiscard]] Launch read_launch(const Environment& variable);
// Reads the environment of this process.
[[nodiscard]] Launch read_launch();
// Returns the place that the environment of this process says, whatever torch's variables say beside it: several ranks
// then say together what is wrong on one of them, by check_torch_launch().
[[nodiscard]] Launch read_mpi_launch();
// Returns the rank of this process among several that a launcher started, whatever else is wrong with what the
// environment says; 0 if that says none.
[[nodiscard]] int launched_rank(const Environment& variable);
[[nodiscard]] int launched_rank();
// Throws InputError if torch's variables are those of several processes, and of others than `launch` says.
void check_torch_launch(const Launch& launch);

}  // namespace spillway
