// Measures the capabilities of this computer, for `doctor` and for the planner's Machine. One measurement at a time; it
// is only meaningful on an idle machine. machine_cache.h keeps the results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "ops/matmul/cpu/product.h"
#include "plan/machine.h"

namespace spillway {

// Returns the bytes per second of a[i] = b[i] + s c[i] in f64, by all threads, over arrays far larger than the caches:
// the three streams that the program sees count (McCalpin, STREAM). It is the best of a few runs.
[[nodiscard]] double measure_triad(ThreadPool& pool);
// Returns the bytes per second that one thread copies from memory to memory; each byte counts once.
[[nodiscard]] double measure_copy();
// Returns the seconds that it costs to hand a piece of work to all threads and wait for them.
[[nodiscard]] double measure_dispatch(ThreadPool& pool);

// The rate of one direction: writing or reading.
struct DiskRate {
  double bytes_per_second = 0;
  double beside_opposite = 0;  // bytes per second while the other keeps the disk busy, too
  double cores = 0;            // of CPU time while the disk is kept busy
  // Extra time of a small request, beyond that of its bytes, until its thread resumes while all CPUs compute.
  double latency_seconds = 0;
};

struct DiskRates {
  DiskRate write, read;
  bool is_direct = false;  // past the page cache
  double cpu_share = 1;    // the share of threads meanwhile (cpu_share.h)
  std::string problem;     // the reason for missing rates; empty if there are rates
};

// The scratch space that is used for a measurement before a job.
inline constexpr int64_t kDiskBytesOfJob = int64_t{128} << 20;

// Writes and reads a scratch space of at most `max_bytes` and an eighth of the free space, striped over the folders as
// a run would have it (DiskQueue, on threads like a lane's), in about four seconds: alone, both at once, and in small
// pieces beside computation. Leaves no file behind in any case. If the host of a virtual disk caches writes, the rate
// may be higher than in a long run. REQUIRES: at least one folder.
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
  double cpu_share = 1;              // the share of threads while all but the disk was measured (cpu_share.h)
  DiskRates disk;
};

// Measures everything above on this computer, in a few seconds. `folders` are those of the disk tier, measured with at
// most `max_disk_bytes`; without any there are no rates of disks. On a busy machine rates are provisional, and a
// message says so.
[[nodiscard]] Measurement measure_machine(const std::vector<std::string>& folders, int64_t max_disk_bytes);

// Records in the machine whether its rates are provisional, and prints a message if so.
void note_busy(Measurement& measurement);

// Sets the rates of the disk's two lanes, their loss to each other and the share of the compute lane that they take,
// for a disk tier in these folders. REQUIRES: the other links of the machine are set.
void set_disks(Machine& machine, const std::vector<std::string>& folders, const DiskRates& rates);

// Sets the free capacity of each tier, and the total of memory. A GPU's host tier leaves room for the buffers between
// it and the disk; the CPU has none, as its memory is the device tier.
void set_capacities(Machine& machine, const std::vector<std::string>& folders, const Device& device);

// Measures a device that has memory of its own and the links to it: by copies and by matrix products of growing size,
// timed with its events. Leaves out what it has no kernel for. For folders and provisional rates see above.
[[nodiscard]] Measurement measure_device(Device& device, const std::vector<std::string>& folders);

}  // namespace spillway
