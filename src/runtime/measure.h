// Measures what this computer can do, for `doctor` and for the planner's Machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/matmul.h"
#include "backend/device.h"
#include "base/parallel.h"
#include "plan/machine.h"

namespace spillway {

// Bytes a second of a[i] = b[i] + s c[i] in f64, by all threads, over arrays far larger than the caches: the three
// streams that the program sees count (McCalpin, STREAM). The best of a few runs.
[[nodiscard]] double measure_triad(ThreadPool& pool);
// Bytes a second that one thread copies from memory to memory; each byte counts once.
[[nodiscard]] double measure_copy();
// Seconds that handing a piece of work to all threads and waiting for them costs.
[[nodiscard]] double measure_dispatch(ThreadPool& pool);

// Of writing or of reading.
struct DiskRate {
  double bytes_per_second = 0;
  double beside_opposite = 0;  // bytes a second while the other keeps the disk busy, too
  double cores = 0;            // of CPU time while the disk is kept busy
  // What a small request takes beyond its bytes' time until its thread knows of it, while all CPUs compute.
  double latency_seconds = 0;
};

struct DiskRates {
  DiskRate write, read;
  bool is_direct = false;  // past the page cache
  std::string problem;     // why there are no rates; empty where there are
};

// Of scratch space, as much as is measured with for a job.
inline constexpr int64_t kDiskBytesOfJob = int64_t{128} << 20;

// Writes and reads a scratch space of at most `most_bytes` and an eighth of what is free, striped over the folders as a
// run would have it (DiskQueue, on threads like a lane's), in about four seconds: alone, both at once, and in small
// pieces beside computation. Nothing is left whatever happens. Where the host of a virtual disk caches writes, the rate
// may be higher than what a long run sees. REQUIRES: at least one folder.
[[nodiscard]] DiskRates measure_disks(const std::vector<std::string>& folders, int64_t most_bytes);

struct MatrixRate {
  DType dtype = DType::kF32;
  cpu::Bf16Path path = cpu::Bf16Path::kWidenToF32;  // of bf16
  int64_t size = 0;                                 // of square matrices
  double flops = 0;                                 // a second
};

struct Measurement {
  Machine machine;
  std::vector<MatrixRate> products;  // by dtype, path and size
  DiskRates disk;
};

// Everything above on this computer, in a few seconds. `folders` are those of the disk tier.
[[nodiscard]] Measurement measure_machine(const std::vector<std::string>& folders);

// What the disk's two lanes take, lose to each other and leave to the compute lane when the disk tier is in these
// folders, in the place of what the machine knew. Its other links are known.
void set_disks(Machine& machine, const std::vector<std::string>& folders, const DiskRates& rates);

// What of each tier can be had now, and what there is of memory. A GPU's host tier leaves room for the buffers between
// it and the disk; the CPU has none, as its memory is the device tier.
void set_capacities(Machine& machine, const std::vector<std::string>& folders, const Device& device);

// Rates of a device that has memory of its own, and of the links to it: by copies and by matrix products of growing
// size, timed with its events. What it has no kernel for is left out.
[[nodiscard]] Measurement measure_device(Device& device, const std::vector<std::string>& folders);

// The Machine of this computer for the planner: rates and operations from the cache file, which is made by a
// measurement where it is missing, damaged, another CPU's, another GPU's, or of another version of the program or of
// the device's libraries; capacities as they are now. The device is told which of its libraries' algorithms were
// chosen. Its disk lanes may have been measured on other disks.
[[nodiscard]] Machine this_machine(const std::vector<std::string>& folders, Device& device = cpu_device());
// For a job that may use the disk tier: where the machine's disk lanes were measured on other disks than those of these
// folders, or could not be, measures these, for the machine and the cache file. A warning where they cannot be, either.
void know_disks(Machine& machine, const std::vector<std::string>& folders, const Device& device = cpu_device());
// Tells the device which of its libraries' algorithms were chosen before, as the cache file has them: whoever measures
// keeps to those, also where the rest of the file is to be measured anew.
void restore_algorithms(Device& device);
// $XDG_CACHE_HOME/spillway/machine.json, or machine-cuda.json; empty where there is no home. Writing it is best effort.
[[nodiscard]] std::filesystem::path machine_cache_path(DeviceKind kind = DeviceKind::kCpu);
void cache_machine(const Machine& machine, const Device& device);
// What the cache file says of the machine with this device; absent where it has to be measured. Capacities are old.
[[nodiscard]] std::optional<Machine> cached_machine(const Device& device);

}  // namespace spillway
