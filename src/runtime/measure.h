// Measures what this computer can do, for `doctor` and for the planner's Machine. One measurement at a time, on an idle
// machine where it is to mean anything. machine_cache.h keeps the results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "ops/matmul/cpu/product.h"
#include "plan/machine.h"

namespace spillway {

// Bytes per second of a[i] = b[i] + s c[i] in f64, by all threads, over arrays far larger than the caches: the three
// streams that the program sees count (McCalpin, STREAM). The best of a few runs.
[[nodiscard]] double measure_triad(ThreadPool& pool);
// Bytes a second that one thread copies from memory to memory; each byte counts once.
[[nodiscard]] double measure_copy();
// Seconds that handing a piece of work to all threads and waiting for them costs.
[[nodiscard]] double measure_dispatch(ThreadPool& pool);

// Of writing or of reading.
struct DiskRate {
  double bytes_per_second = 0;
  double beside_opposite = 0;  // bytes per second while the other keeps the disk busy, too
  double cores = 0;            // of CPU time while the disk is kept busy
  // What a small request takes beyond its bytes' time until its thread knows of it, while all CPUs compute.
  double latency_seconds = 0;
};

struct DiskRates {
  DiskRate write, read;
  bool is_direct = false;  // past the page cache
  double cpu_share = 1;    // that threads had meanwhile (cpu_share.h)
  std::string problem;     // why there are no rates; empty where there are
};

// Of scratch space, as much as is measured with for a job.
inline constexpr int64_t kDiskBytesOfJob = int64_t{128} << 20;

// Writes and reads a scratch space of at most `max_bytes` and an eighth of what is free, striped over the folders as a
// run would have it (DiskQueue, on threads like a lane's), in about four seconds: alone, both at once, and in small
// pieces beside computation. Nothing is left whatever happens. Where the host of a virtual disk caches writes, the rate
// may be higher than what a long run sees. REQUIRES: at least one folder.
[[nodiscard]] DiskRates measure_disks(const std::vector<std::string>& folders, int64_t max_bytes);

struct MatrixRate {
  DType dtype = DType::kF32;
  cpu::Bf16Path path = cpu::Bf16Path::kWidenToF32;  // of bf16
  int64_t size = 0;                                 // of square matrices
  double flops = 0;                                 // a second
};

struct Measurement {
  Machine machine;
  std::vector<MatrixRate> products;  // by dtype, path and size
  double cpu_share = 1;              // that threads had while all but the disk was measured (cpu_share.h)
  DiskRates disk;
};

// Everything above on this computer, in a few seconds. `folders` are those of the disk tier, measured with at most
// `max_disk_bytes`; without any there are no rates of disks. On a busy machine rates are provisional, which is said.
[[nodiscard]] Measurement measure_machine(const std::vector<std::string>& folders, int64_t max_disk_bytes);

// Notes in the machine whether its rates are provisional, and says it.
void note_busy(Measurement& measurement);

// What the disk's two lanes take, lose to each other and leave to the compute lane when the disk tier is in these
// folders, in the place of what the machine knew. Its other links are known.
void set_disks(Machine& machine, const std::vector<std::string>& folders, const DiskRates& rates);

// What of each tier can be had now, and what there is of memory. A GPU's host tier leaves room for the buffers between
// it and the disk; the CPU has none, as its memory is the device tier.
void set_capacities(Machine& machine, const std::vector<std::string>& folders, const Device& device);

// Rates of a device that has memory of its own, and of the links to it: by copies and by matrix products of growing
// size, timed with its events. What it has no kernel for is left out. Folders and what is provisional: as above.
[[nodiscard]] Measurement measure_device(Device& device, const std::vector<std::string>& folders);

}  // namespace spillway
