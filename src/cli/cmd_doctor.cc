#include "cli/cmd_doctor.h"

#include <fmt/ranges.h>
#include <hwy/base.h>
#include <hwy/highway.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <CLI/Version.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/device.h"
#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shared_cpus.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/ranks/exchange_rates.h"
#include "dist/launch.h"
#include "dist/open_peers.h"
#include "runtime/computer.h"
#include "runtime/cpu_share.h"
#include "runtime/machine_cache.h"
#include "runtime/measure.h"

namespace spillway {
namespace {

constexpr int64_t kDiskBytes = 256 * kMiB;  // of scratch space, to measure the disk with

using Library = GpuSurvey::Library;
using Missing = GpuSurvey::Missing;

std::string pcre2_version() {
  std::array<char, 64> text{};
  pcre2_config(PCRE2_CONFIG_VERSION, text.data());
  return text.data();
}

std::vector<Library> libraries() {
  return {{"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"yaml-cpp", SPILLWAY_YAML_CPP_VERSION},
          {"CLI11", CLI11_VERSION},
          {"Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
          {"PCRE2", pcre2_version()},
          {"utf8proc", utf8proc_version()}};
}

std::vector<Missing> missing(const std::vector<std::string>& features, const DiskRates& disk,
                             const std::string& folder) {
  std::vector<Missing> list;
  const auto has = [&](std::string_view name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  if (HWY_ARCH_X86 != 0 && !has("avx2"))  // elsewhere portable code is all there is
    list.push_back(
        {"AVX2", "matrix products run in portable code, many times slower", "use an x86-64 CPU from 2013 on"});
  if (!disk.problem.empty()) {
    list.push_back({"disk tier", fmt::format("{}: {}", folder, disk.problem), "name another folder with --disk"});
  } else if (!disk.is_direct) {
    list.push_back(
        {"direct disk access",
         fmt::format("{}: the file system has no O_DIRECT, so the rates are those of the page cache", folder),
         "name a folder on a local disk with --disk"});
  }
  return list;
}

std::string_view label_of(const MatrixRate& rate, DeviceKind device) {
  if (rate.dtype == DType::kF32) return "f32";
  if (device == DeviceKind::kCuda) return "bf16";
  return rate.path == cpu::Bf16Path::kNativeDot ? "bf16_native" : "bf16_widened";
}

bool is_used(const MatrixRate& rate, DeviceKind device) {
  return device == DeviceKind::kCuda || rate.dtype == DType::kF32 || rate.path == cpu::choose_bf16_path();
}

// Adds the library by which ranks exchange, or that it is missing.
void add_mpi(std::vector<Library>& libraries, std::vector<Missing>& missing) {
  std::string version, why = "jobs of several ranks (--ranks) cannot be started";
  try {
    version = mpi_version();
  } catch (const MachineError& error) {
    why += fmt::format(": {}", error.what());
  }
  if (version.empty())
    return missing.push_back(
        {"MPI", why, "tools/install_dependencies ranks (openmpi-bin, libopenmpi-dev), and build again"});
  constexpr std::string_view kName = "Open MPI v";
  const bool is_open = version.starts_with(kName);
  libraries.push_back({is_open ? "Open MPI" : "MPI", is_open ? version.substr(kName.size()) : version});
}

struct Findings {
  Measurement measured;
  std::string cpu;
  std::vector<std::string> features;
  std::string folder;  // of the disk tier
  std::vector<Library> libraries;
  std::vector<Missing> missing;
  std::optional<ExchangeRates> exchange;  // between the ranks that a launcher has started
};

// Returns the share of the CPUs that threads had during the measurements.
double cpu_share(const Measurement& measured) { return std::min(measured.cpu_share, measured.disk.cpu_share); }

nlohmann::ordered_json tiers_json(const Findings& found) {
  const Machine& machine = found.measured.machine;
  const auto capacity = [&](Tier tier) { return nth(machine.capacity_bytes, tier); };
  return {{"device",
           {{"capacity_bytes", capacity(Tier::kDevice)},
            {"total_bytes", total_memory_bytes()},
            {"bytes_per_second", machine.memory_bytes_per_second}}},
          {"host",
           {{"capacity_bytes", capacity(Tier::kHost)},
            {"bytes_per_second", nth(machine.link_bytes_per_second, Lane::kHostToDevice)}}},
          {"disk",
           {{"folder", found.folder},
            {"capacity_bytes", capacity(Tier::kDisk)},
            {"write_bytes_per_second", found.measured.disk.write.bytes_per_second},
            {"read_bytes_per_second", found.measured.disk.read.bytes_per_second},
            {"direct", found.measured.disk.is_direct}}}};
}

nlohmann::ordered_json to_json(const Findings& found) {
  nlohmann::ordered_json json = {
      {"cpu", {{"name", found.cpu}, {"threads", found.measured.machine.threads}, {"features", found.features}}},
      {"tiers", tiers_json(found)}};
  json["compute"] = nlohmann::ordered_json::array();
  for (const MatrixRate& rate : found.measured.products) {
    json["compute"].push_back({{"dtype", rate.dtype == DType::kF32 ? "f32" : "bf16"},
                               {"path", label_of(rate, found.measured.machine.device)},
                               {"size", rate.size},
                               {"flops_per_second", rate.flops},
                               {"used", is_used(rate, found.measured.machine.device)}});
  }
  if (found.exchange) {
    json["exchange"] = {{"ranks", found.exchange->ranks},
                        {"fold_bytes_per_second", found.exchange->fold_bytes_per_second},
                        {"gather_bytes_per_second", found.exchange->gather_bytes_per_second}};
  }
  json["libraries"] = nlohmann::ordered_json::array();
  for (const Library& library : found.libraries) {
    nlohmann::ordered_json one = {{"name", library.name}, {"version", library.version}};
    if (!library.path.empty()) one["path"] = library.path;
    json["libraries"].push_back(std::move(one));
  }
  json["missing"] = nlohmann::ordered_json::array();
  for (const Missing& one : found.missing)
    json["missing"].push_back({{"name", one.name}, {"why", one.why}, {"install", one.install}});
  json["cpu_share"] = cpu_share(found.measured);
  json["busy"] = cpu_share(found.measured) < kMinCpuShare;
  json["machine"] = spillway::to_json(found.measured.machine);
  return json;
}

// Makes the machine that of one rank, as a file for `plan --machine` has it.
void take_share(Machine& machine, const Launch& launch, const ExchangeRates& exchange, const Device& device) {
  for (const Tier tier : kEachBudgetedTier) {
    if (tier == Tier::kDevice && !device.shares_host_memory()) continue;  // each rank has a GPU
    nth(machine.capacity_bytes, tier) /= launch.local_size;
    nth(machine.total_bytes, tier) /= launch.local_size;
  }
  machine.ranks_per_host = machine.ranks_on_host = launch.local_size;
  nth(machine.link_bytes_per_second, Lane::kPeer) = exchange.slower();
}

std::string rate_text(double bytes_per_second) { return fmt::format("{:.1f} GB/s", bytes_per_second / 1e9); }

void print_products(const Measurement& measured) {
  fmt::print("\nmatrix products, GFLOP/s by size\n");
  const DeviceKind device = measured.machine.device;
  std::string_view label;
  for (const MatrixRate& rate : measured.products) {
    if (label_of(rate, device) != label) {
      if (!label.empty()) fmt::print("\n");
      label = label_of(rate, device);
      fmt::print("  {:<14}", label);
    }
    fmt::print("  {}: {:.0f}", rate.size, rate.flops / 1e9);
    if (device == DeviceKind::kCpu && rate.size == 1024 && rate.dtype == DType::kBF16 && is_used(rate, device))
      fmt::print("   (used for bf16)");
  }
  fmt::print("\n");
}

void print_page(const Findings& found) {
  const Machine& machine = found.measured.machine;
  const auto capacity = [&](Tier tier) { return format_bytes(nth(machine.capacity_bytes, tier)); };
  fmt::print("{}, {} threads: {}\n\ntiers\n", found.cpu, machine.threads, fmt::join(found.features, " "));
  const auto link = [&](Lane lane) { return rate_text(nth(machine.link_bytes_per_second, lane)); };
  if (machine.device == DeviceKind::kCuda) {
    fmt::print("  device  {} free on {}, {} (copied)\n", capacity(Tier::kDevice), machine.name,
               rate_text(machine.memory_bytes_per_second));
    fmt::print("  host    {} free of {}, {} to the device, {} back\n", capacity(Tier::kHost),
               format_bytes(total_memory_bytes()), link(Lane::kHostToDevice), link(Lane::kDeviceToHost));
  } else {
    fmt::print("  device  {} free of {}, {} (triad)\n", capacity(Tier::kDevice), format_bytes(total_memory_bytes()),
               rate_text(machine.memory_bytes_per_second));
    fmt::print("  host    part of the same memory where memory.host asks for it, {} (copied by one thread)\n",
               link(Lane::kHostToDevice));
  }
  const DiskRates& disk = found.measured.disk;
  if (disk.problem.empty()) {
    fmt::print("  disk    {} free in {}, write {}, read {}{}\n", capacity(Tier::kDisk), found.folder,
               rate_text(disk.write.bytes_per_second), rate_text(disk.read.bytes_per_second),
               disk.is_direct ? "" : " (page cache)");
  } else {
    fmt::print("  disk    none in {}\n", found.folder);
  }
  if (found.exchange) {
    fmt::print(
        "  ranks   {}: each sends {} in sums, {} in gathers; the rates above are one rank's, beside the others\n",
        found.exchange->ranks, rate_text(found.exchange->fold_bytes_per_second),
        rate_text(found.exchange->gather_bytes_per_second));
  }
  print_products(found.measured);
  fmt::print("\nstarting an operation takes {:.1f} us\n\nlibraries\n ", machine.operation_seconds * 1e6);
  for (const Library& library : found.libraries) {
    if (library.path.empty()) fmt::print(" {} {} ", library.name, library.version);
  }
  for (const Library& library : found.libraries) {
    if (!library.path.empty()) fmt::print("\n  {} {} in {}", library.name, library.version, library.path);
  }
  if (const double share = cpu_share(found.measured); share < kMinCpuShare) {
    fmt::print(
        "\n\nbusy\n  other programs took {:.0f} % of the CPUs, and the rates are lower for it; run `spillway "
        "doctor` again when they rest",
        100 * (1 - share));
  }
  fmt::print("\n\nmissing\n");
  if (found.missing.empty()) fmt::print("  nothing\n");
  for (const Missing& one : found.missing) fmt::print("  {}: {}; {}\n", one.name, one.why, one.install);
}

}  // namespace

int cmd_doctor(std::span<const std::string> args) {
  CommandLine line("spillway doctor", "Shows what this machine has and how fast each part is.");
  std::string folder = ".", device_name = "auto", isa;
  bool json = false, again = false;
  line.option("--disk FOLDER", folder, "the folder whose disk is measured");
  line.option("--device NAME", device_name, "the device that is measured: auto, cpu, cuda or cuda:N");
  line.option("--isa NAME", isa, kIsaMeaning);
  line.flag("--again", again, "forget all that was measured before, also of jobs' operations");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway doctor");
  line.example("spillway doctor --disk /nvme0/scratch");
  line.example("spillway doctor --json > machine.json && spillway plan config.yml --machine machine.json");
  if (!line.parse(args)) return kDone;
  if (!isa.empty()) cpu::limit_isa(isa);
  if (!std::filesystem::is_directory(folder)) {
    throw input_error("--disk", "expected a folder, got '{}'; name one that is there", folder);
  }
  const Launch launch = read_launch();
  share_cpus(launch.local_size);
  if (launch.is_one_of_several()) use_machine_cache_of_ranks();
  const std::unique_ptr<Peers> peers = open_peers(launch);
  const std::shared_ptr<Device> device = open_device(device_name);
  if (launch.rank == 0) log_line("measuring for a few seconds; other programs should rest");
  restore_algorithms(*device);
  Findings found;
  found.measured =
      device->kind() == DeviceKind::kCpu ? measure_machine({folder}, kDiskBytes) : measure_device(*device, {folder});
  found.cpu = cpu_name();
  found.features = cpu_features();
  found.folder = folder;
  found.libraries = libraries();
  found.missing = missing(found.features, found.measured.disk, folder);
  const GpuSurvey gpus = survey_gpus();
  found.libraries.insert(found.libraries.end(), gpus.libraries.begin(), gpus.libraries.end());
  found.missing.insert(found.missing.end(), gpus.missing.begin(), gpus.missing.end());
  add_mpi(found.libraries, found.missing);
  if (peers) {
    found.exchange = measure_exchange(*peers);
    take_share(found.measured.machine, launch, *found.exchange, *device);
    if (launch.rank != 0) return kDone;
  }
  cache_rates(found.measured.machine, *device, again);
  if (json) {
    fmt::print("{}\n", json_text(to_json(found), 2));
  } else {
    print_page(found);
  }
  return kDone;
}

}  // namespace spillway
