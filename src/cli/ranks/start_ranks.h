// `--ranks`, and the start of a job of several ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/config_arguments.h"
#include "dist/launch.h"

namespace spillway {

constexpr CommandFlag kRanksFlag = {
    "--ranks", "N",
    "train on N processes: starts mpirun. auto: one for each GPU of this machine, or for each NUMA node"};

// Returns the number of ranks that suits a machine on which the config says `device` (as the key has it): one for each
// GPU, or for each NUMA node where the CPU trains; one for a GPU that is named.
[[nodiscard]] int ranks_that_suit(std::string_view device, int gpus, int numa_nodes);

// Returns the number of ranks that --ranks asks for on this machine, where the config says `device`; 0 where it is not
// given, or says auto under a launcher. Throws InputError if it is no number above 0, or another than that of the
// launcher.
[[nodiscard]] int ranks_asked_for(const ConfigArguments& arguments, const Launch& launch, std::string_view device);

// Returns the number of ranks that `text`, the value of --ranks, says. Throws InputError if it is none from 1 to
// `most`, which `range` says ("from 1").
[[nodiscard]] int ranks_from(std::string_view text, int most, std::string_view range);

// Runs `spillway train ARGS...` as so many ranks under mpirun, and returns the job's exit status. Throws InputError if
// mpirun is not there, or this build has no MPI. `config` is the config's path, which must be that of a file: standard
// input is not there for all ranks.
[[nodiscard]] int start_ranks(int ranks, std::span<const std::string> args, const std::string& config);

// Throws InputError if this process is one of several that mpirun or srun started: `command` runs alone.
void check_launched_alone(std::string_view command);

}  // namespace spillway
