#include "cli/ranks/start_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/ranks/job_parent.h"
#include "dist/open_peers.h"
#include "ops/collectives/device_peers.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAuto = "auto";

// Returns the number of NUMA nodes that have CPUs, at least 1.
int numa_nodes() {
  for (int nodes = 0;; ++nodes) {
    std::string cpus;
    std::ifstream(fmt::format("/sys/devices/system/node/node{}/cpulist", nodes)) >> cpus;
    if (cpus.empty()) return std::max(nodes, 1);
  }
}

// Returns the path of mpirun.
std::string mpirun_path(int ranks) {
  const char* const folders = std::getenv("PATH");
  std::string_view rest = folders == nullptr ? "" : folders;
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path path = fs::path(rest.substr(0, colon)) / "mpirun";
    std::error_code error;
    if (fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0) return path.string();
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  throw input_error("mpirun", "expected Open MPI's mpirun in PATH to start {} ranks, got none; install openmpi-bin",
                    ranks);
}

}  // namespace

int ranks_that_suit(std::string_view device, int gpus, int numa_nodes) {
  if (device == "cpu" || (device == "auto" && gpus == 0)) return numa_nodes;
  const bool is_any_gpu = device == "auto" || device == "cuda";
  return is_any_gpu ? std::max(gpus, 1) : 1;
}

int ranks_from(std::string_view text, int most, std::string_view range) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1 || ranks > most)
    throw input_error(kRanksFlag.name, "expected a number of processes {}, got {}; change it", range, quote(text));
  return ranks;
}

int ranks_asked_for(const ConfigArguments& arguments, const Launch& launch, std::string_view device) {
  if (!arguments.has(kRanksFlag.name)) return 0;
  const std::string text = arguments.value(kRanksFlag.name);
  if (text == kAuto) {
    if (launch.is_one_of_several()) return 0;
    return ranks_that_suit(device, ops::visible_gpus(), numa_nodes());
  }
  const int ranks = ranks_from(text, INT_MAX, "from 1, or auto");
  if (launch.is_one_of_several() && ranks != launch.size)
    throw input_error(kRanksFlag.name, "expected {}, the processes that {} started, got {}; change it, or remove it",
                      launch.size, launch.launcher, ranks);
  return ranks;
}

int start_ranks(int ranks, std::span<const std::string> args, const std::string& config) {
  check_has_mpi();
  if (config == "-")
    throw input_error(kRanksFlag.name,
                      "expected the config in a file for {} ranks, got standard input; write it to one", ranks);
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr)  // which Open MPI sets
    throw input_error("mpirun",
                      "expected none around a process that starts {} ranks, got one; write mpirun -n {}, or "
                      "start spillway without it",
                      ranks, ranks);
  if (::geteuid() == 0) {  // mpirun wants to be told
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  // -q: no banner about a status that is not 0. More ranks than cores are allowed, and none is bound to a part of them:
  // each takes its share of the host's (base/shared_cpus.h).
  std::vector<std::string> command = {mpirun_path(ranks),
                                      "-q",
                                      "--bind-to",
                                      "none",
                                      "--map-by",
                                      "slot:OVERSUBSCRIBE",
                                      "-n",
                                      fmt::format("{}", ranks),
                                      fs::read_symlink("/proc/self/exe").string(),
                                      "train"};
  command.insert(command.end(), args.begin(), args.end());
  return run_job(command);
}

void check_launched_alone(std::string_view command) {
  // torch's variables may be those of a machine, where nothing was launched.
  const Launch launch = read_launch([](const char* name) -> const char* {
    return std::string_view(name) == "WORLD_SIZE" ? nullptr : std::getenv(name);
  });
  if (launch.is_one_of_several())
    throw input_error(fmt::format("spillway {}", command),
                      "expected one process, got one of {} that {} started; start it alone: train alone runs on "
                      "several ranks",
                      launch.size, launch.launcher);
}

}  // namespace spillway
