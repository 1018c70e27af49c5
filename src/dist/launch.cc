#include "dist/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace spillway {
namespace {

// The variables of a launcher; null where it has none.
struct LauncherVariables {
  const char* launcher;
  const char *size, *rank, *local_size, *local_rank;
};

constexpr LauncherVariables kMpiLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    // SLURM_NTASKS is there in an allocation, too, where one process runs.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", nullptr, "SLURM_LOCALID"},
};

std::optional<int> parsed(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<int> number_of(const Environment& variable, const char* name) {
  const char* const text = name == nullptr ? nullptr : variable(name);
  return text == nullptr ? std::nullopt : parsed(text);
}

// Returns the number of tasks of the host with this index, of Slurm's "2(x3),1": three hosts with two, one with one.
std::optional<int> tasks_of_host(std::string_view text, int host) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view entry = text.substr(0, comma);
    int hosts = 1;
    if (const size_t times = entry.find("(x"); times != std::string_view::npos && entry.ends_with(')')) {
      hosts = parsed(entry.substr(times + 2, entry.size() - times - 3)).value_or(0);
      entry = entry.substr(0, times);
    }
    if (host < hosts) return parsed(entry);
    host -= hosts;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

int local_size_of(const Environment& variable, const LauncherVariables& names) {
  if (names.local_size != nullptr) return number_of(variable, names.local_size).value_or(1);
  const char* const tasks = variable("SLURM_STEP_TASKS_PER_NODE");
  return tasks_of_host(tasks == nullptr ? "" : tasks, number_of(variable, "SLURM_NODEID").value_or(0)).value_or(1);
}

Launch launch_of(const Environment& variable, const LauncherVariables& names, int size) {
  const auto place = [&](const char* name, int of) {
    const std::optional<int> number = number_of(variable, name);
    if (number && *number >= 0 && *number < of) return *number;
    const char* const text = variable(name);
    throw input_error(name, "expected a rank of {}, got {}; start all ranks by {} itself", of,
                      text == nullptr ? "nothing" : quote(text), names.launcher);
  };
  Launch launch = {.rank = place(names.rank, size), .size = size, .launcher = names.launcher};
  launch.local_size = std::clamp(local_size_of(variable, names), 1, size);
  if (variable(names.local_rank) != nullptr) launch.local_rank = place(names.local_rank, launch.local_size);
  return launch;
}

// The launcher that set torch's variables.
std::string_view torch_launcher(const Environment& variable) {
  if (variable("ACCELERATE_MIXED_PRECISION") != nullptr) return "accelerate launch";
  if (variable("TORCHELASTIC_RUN_ID") != nullptr) return "torchrun";
  if (variable("CROSS_SIZE") != nullptr) return "deepspeed";
  return "torchrun or the like";
}

const char* own_variable(const char* name) { return std::getenv(name); }

void check_torch_launch(const Launch& launch, const Environment& variable) {
  const int torch_size = number_of(variable, "WORLD_SIZE").value_or(1);
  if (torch_size > 1 && !launch.is_one_of_several())
    throw input_error("WORLD_SIZE",
                      "expected one process, got one of {} that {} started; start `spillway train CONFIG.yml --ranks "
                      "{}` once, or `mpirun -n {} spillway train CONFIG.yml`",
                      torch_size, torch_launcher(variable), torch_size, torch_size);
  if (torch_size > 1 && torch_size != launch.size)
    throw input_error("WORLD_SIZE", "expected {} as {} says, got {}; start the ranks with one launcher, or unset it",
                      launch.size, launch.launcher, torch_size);
}

Launch read_mpi_launch(const Environment& variable) {
  Launch launch;
  for (const LauncherVariables& names : kMpiLaunchers) {
    const int size = number_of(variable, names.size).value_or(1);
    if (size <= 1) continue;
    launch = launch_of(variable, names, size);
    break;
  }
  if (launch.launcher == "srun" && variable("PMIX_NAMESPACE") == nullptr)
    throw input_error("srun", "expected PMIx to connect {} ranks, got none; start them with srun --mpi=pmix",
                      launch.size);
  return launch;
}

}  // namespace

int launched_rank(const Environment& variable) {
  for (const LauncherVariables& names : kMpiLaunchers)
    if (number_of(variable, names.size).value_or(1) > 1) return number_of(variable, names.rank).value_or(0);
  return 0;
}

int launched_rank() { return launched_rank(own_variable); }

Launch read_launch(const Environment& variable) {
  const Launch launch = read_mpi_launch(variable);
  check_torch_launch(launch, variable);
  return launch;
}

Launch read_launch() { return read_launch(own_variable); }

Launch read_mpi_launch() { return read_mpi_launch(own_variable); }

void check_torch_launch(const Launch& launch) { check_torch_launch(launch, own_variable); }

}  // namespace spillway
