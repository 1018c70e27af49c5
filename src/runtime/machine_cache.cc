#include "runtime/machine_cache.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/isa.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "io/cache_folder.h"
#include "io/disk_space.h"
#include "io/file.h"
#include "runtime/computer.h"
#include "runtime/cpu_share.h"
#include "runtime/measure.h"

namespace spillway {
namespace {

constexpr int64_t kMaxCacheBytes = 16 * kMiB;
// The version of the contents of a Machine and of the times of kernels; older entries of a cache file are measured
// anew.
constexpr int kMeasurement = 5;
// The most operations in the cache, for some dozens of jobs. Beyond that it starts anew.
constexpr size_t kMaxOperations = 4000;

bool is_of_ranks = false;  // set before other threads start

// Returns true if a cached machine is the present one.
bool is_same(const Machine& machine, const Device& device) {
  return machine.device == device.kind() && machine.threads == available_cpus() &&
         machine.name == (device.shares_host_memory() ? cpu_name() : device.description());
}

struct Cached {
  Machine machine;
  bool is_current = false;  // kernels of other programs and libraries take other times
};

// Returns the cache file of the present device; absent if it is missing, damaged, or of another machine.
std::optional<Cached> read_cache(const Device& device) {
  const std::filesystem::path path = machine_cache_path(device.kind());
  if (path.empty()) return {};
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path, kMaxCacheBytes));
    Cached cached{machine_from_json(json, path.string()), json.value("program", "") == SPILLWAY_VERSION &&
                                                              json.value("measurement", 0) == kMeasurement &&
                                                              json.value("libraries", "") == device.libraries()};
    if (!is_same(cached.machine, device)) return {};
    return cached;
  } catch (const std::exception&) {
    return {};
  }
}

void copy_disks(const Machine& from, Machine& to) {
  to.disks = from.disks;
  to.cpu_shares.disks = from.cpu_shares.disks;
  for (const Lane lane : {Lane::kDiskRead, Lane::kDiskWrite}) {
    nth(to.link_bytes_per_second, lane) = nth(from.link_bytes_per_second, lane);
    nth(to.measured.link_bytes_per_second, lane) = nth(from.measured.link_bytes_per_second, lane);
    nth(to.link_latency_seconds, lane) = nth(from.link_latency_seconds, lane);
    nth(to.compute_share, lane) = nth(from.compute_share, lane);
    nth(to.opposite_share, lane) = nth(from.opposite_share, lane);
  }
}

bool has_disks(const Machine& machine) {
  const auto& rates = machine.link_bytes_per_second;
  return nth(rates, Lane::kDiskRead) > 0 && nth(rates, Lane::kDiskWrite) > 0;
}

// Returns true if the CPUs are less busy now, which it measures only if that decides; prints a message if they are
// still busy.
bool is_less_busy_than(double then, std::string_view what) {
  if (then >= kMinCpuShare) return false;
  ThreadPool pool(available_cpus());
  CpuShare now(pool);
  now.complete();
  if (is_worth_measuring_again(then, now.value())) return true;
  say_busy(what, now.value());
  return false;
}

// Returns what is known, with newly measured rates where those are not less certain.
Machine with_rates(const Machine& known, const Machine& measured) {
  const auto is_worse = [](double now, double then) { return now < std::min(kMinCpuShare, then); };
  const bool keeps_rates = is_worse(measured.cpu_shares.rates, known.cpu_shares.rates);
  const bool keeps_disks = !has_disks(measured) || (has_disks(known) && known.disks == measured.disks &&
                                                    is_worse(measured.cpu_shares.disks, known.cpu_shares.disks));
  Machine result = keeps_rates ? known : measured;
  copy_disks(keeps_disks ? known : measured, result);
  result.operations = known.operations;
  result.measured.operations = known.measured.operations;
  result.algorithms.insert(known.algorithms.begin(), known.algorithms.end());
  return result;
}

}  // namespace

std::filesystem::path machine_cache_path(DeviceKind kind) {
  // Kernels of another instruction set have other rates.
  const std::string limited = cpu::isa_limit().empty() ? "" : fmt::format("-{}", cpu::isa_limit());
  const std::string cpus = is_of_ranks ? fmt::format("-{}-cpus", available_cpus()) : "";
  const std::string name = fmt::format("machine{}{}{}.json", kind == DeviceKind::kCpu ? "" : "-cuda", limited, cpus);
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? folder : folder / name;
}

void use_machine_cache_of_ranks() { is_of_ranks = true; }

void cache_machine(const Machine& machine, const Device& device) {
  const std::filesystem::path path = machine_cache_path(machine.device);
  if (path.empty()) return;
  try {
    create_folders(path.parent_path());
    nlohmann::ordered_json json = to_json(machine);
    json["program"] = SPILLWAY_VERSION;
    json["measurement"] = kMeasurement;
    json["libraries"] = device.libraries();
    write_file(path, json_text(json, 2) + "\n");
  } catch (const std::runtime_error&) {
    // A home that cannot be written only costs a measurement at the next run.
  }
}

void restore_algorithms(Device& device) {
  if (const auto cached = read_cache(device)) device.set_algorithms(cached->machine.algorithms);
}

std::optional<Machine> cached_machine(const Device& device) {
  std::optional<Cached> cached = read_cache(device);
  if (!cached || !cached->is_current) return {};
  Machine& machine = cached->machine;
  if (machine.operations.size() > kMaxOperations) {
    machine.operations.clear();
    machine.measured.operations.clear();
  }
  return std::move(machine);
}

void cache_rates(const Machine& measured, const Device& device, bool forget) {
  const std::optional<Machine> known = forget ? std::nullopt : cached_machine(device);
  cache_machine(known ? with_rates(*known, measured) : measured, device);
}

Machine this_machine(const std::vector<std::string>& folders, Device& device) {
  std::optional<Machine> machine = cached_machine(device);
  if (machine) {
    device.set_algorithms(machine->algorithms);
  } else {
    restore_algorithms(device);
  }
  if (!machine || is_less_busy_than(machine->cpu_shares.rates, "its rates")) {
    // Disks that have been measured at all are not measured again until a job uses them.
    const std::vector<std::string> disks = machine ? std::vector<std::string>() : folders;
    const Measurement measured =
        device.shares_host_memory() ? measure_machine(disks, kDiskBytesOfJob) : measure_device(device, disks);
    cache_rates(measured.machine, device, false);
    machine = machine ? with_rates(*machine, measured.machine) : measured.machine;
  }
  set_capacities(*machine, folders, device);
  return *std::move(machine);
}

void measure_new_disks(Machine& machine, const std::vector<std::string>& folders, const Device& device) {
  if (has_disks(machine) && machine.disks == disks_of(folders) &&
      !is_less_busy_than(machine.cpu_shares.disks, "the rates of its disks"))
    return;
  log_info("measuring the disk tier in {}", fmt::join(folders, ", "));
  const DiskRates disks = measure_disks(folders, kDiskBytesOfJob);
  if (!disks.problem.empty()) log_warning("the disk tier could not be measured: {}", disks.problem);
  if (disks.cpu_share < kMinCpuShare) say_busy("the rates of its disks", disks.cpu_share);
  set_disks(machine, folders, disks);
  // Another run may have written to the cache since this one read it.
  Machine known = cached_machine(device).value_or(machine);
  set_disks(known, folders, disks);
  cache_machine(known, device);
}

}  // namespace spillway
