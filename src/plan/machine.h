// The properties of a computer: capacity and measured rate of each tier, link and compute unit, and the seconds of
// operations that were measured at their real sizes. Measured once and cached; a JSON file can stand in for a machine
// that is not here.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "graph/operation.h"
#include "plan/program.h"
#include "tensor/dtype.h"

namespace spillway {

// The least CPU time per wall time of threads that have their CPUs to themselves; below it they share with other
// programs.
inline constexpr double kMinCpuShare = 0.85;

struct Machine {
  std::string name = "cpu";
  DeviceKind device = DeviceKind::kCpu;                // the device whose kernels the compute lane runs
  int threads = 1;                                     // of the CPU
  std::array<int64_t, kTiers> capacity_bytes{};        // free, by Tier; 0: the tier is not there
  std::array<int64_t, kTiers> total_bytes{};           // all there is, by Tier; 0: not known
  double matrix_flops_f32 = 50e9;                      // flop/s of large matrix products, all threads
  double matrix_flops_bf16 = 50e9;                     // the same for bf16 data, by the faster of the two paths
  double memory_bytes_per_second = 10e9;               // device memory, reads and writes together
  double host_bytes_per_second = 0;                    // host memory under the host_compute lane; 0: the same memory
  double operation_seconds = 3e-6;                     // the cost of starting one operation
  std::array<double, kLanes> link_bytes_per_second{};  // of each copying lane; 0: the lane is not there
  std::string disks;  // the disks that the disk lanes were measured on (io/disk_space.h); plans do not depend on it
  // The share of its speed that the compute lane loses while another lane is busy. A copy by the CPU takes one core of
  // those that compute; a GPU's copy engine takes nothing.
  std::array<double, kLanes> compute_share{};
  // The share of its speed that a lane loses while the opposite lane is busy: one disk serves both.
  std::array<double, kLanes> opposite_share{};
  // The delay from when a lane is done with a transfer's bytes to when instructions that wait for them go on: the
  // device's answer, and a thread that has to get a core. The lane itself does not wait for that.
  std::array<double, kLanes> link_latency_seconds{};
  // The hosts of several ranks. Each rank has a device, and a host's ranks share its memory, disks and CPUs.
  int64_t ranks_per_host = 1;                      // for which a host has room; 0: any number
  int64_t ranks_on_host = 1;                       // that share the figures above, of which one rank's share is given
  double peer_between_hosts_bytes_per_second = 0;  // that a rank sends to ranks of other hosts; 0: not known
  double peer_latency_seconds = 0;                 // from the start of an exchange to its first byte
  // flop/s on bf16 data of operations, by name, that run at neither matrix rate: attention by a library.
  std::map<std::string, double, std::less<>> operation_flops;

  struct OperationSeconds {
    double compute = 0;    // on the compute lane
    double host = 0;       // on the host_compute lane; 0: not measured
    double cpu_share = 1;  // CPU share of the threads when it was measured, as in CpuShares

    [[nodiscard]] bool is_provisional() const { return cpu_share < kMinCpuShare; }
    bool operator==(const OperationSeconds&) const = default;
  };
  // By signature (plan/signature.h). Operations that are not here are predicted by rates.
  using OperationTable = std::map<std::string, OperationSeconds, std::less<>>;
  OperationTable operations;
  // The measured values of the operations and links that runs have corrected as they go (runtime/calibration.h). The
  // limit of corrections is counted from here, so that many runs get no farther than one.
  struct Measured {
    OperationTable operations;
    std::array<double, kLanes> link_bytes_per_second{};  // 0: no run has corrected it
  };
  Measured measured;
  // CPU time per wall time of the threads that needed it during the measurement (runtime/cpu_share.h). Below
  // kMinCpuShare other programs ran beside it and the measurement is provisional: it is repeated when they rest, and
  // does not limit corrections by runs.
  struct CpuShares {
    double rates = 1;  // of computation, memory and copies
    double disks = 1;
  };
  CpuShares cpu_shares;
  // The algorithm of a library for each shape, as returned by Device::algorithms(). Plans do not depend on it.
  std::map<std::string, int32_t, std::less<>> algorithms;

  // Returns the flop/s of matrix products on data of this type.
  [[nodiscard]] double matrix_flops(DType dtype) const {
    return dtype == DType::kF32 ? matrix_flops_f32 : matrix_flops_bf16;
  }
};

// Leaves a process this share, in (0, 1], of the CPUs and of what they and the disks do in a second, with one thread at
// least; operations that were measured on CPUs take so much longer. The rates of another device stay, and so do
// capacities.
void share_rates(Machine& machine, double share);
// Returns the machine as one of `ranks` sees it: the ranks of a host share its host memory, disks and CPUs evenly, and
// where the device is the CPU that too. REQUIRES: ranks >= 1.
[[nodiscard]] Machine share_of_rank(const Machine& machine, int64_t ranks);
// Throws InputError naming `where` if the machine lacks a rate at which so many ranks exchange.
void check_peer_rates(const Machine& machine, int64_t ranks, std::string_view where);

[[nodiscard]] nlohmann::ordered_json to_json(const Machine& machine);
// Throws InputError naming `where` and the key for anything that is missing, of the wrong type, negative or not finite.
// `device`, `total_bytes`, `operation_flops`, `host_bytes_per_second`, `disks`, `compute_share`, `opposite_share`,
// `link_latency_seconds`, `ranks_per_host`, `ranks_on_host`, `peer_between_hosts_bytes_per_second`,
// `peer_latency_seconds`, `operations`, `measured`, `cpu_shares` and `algorithms` may be missing.
[[nodiscard]] Machine machine_from_json(const nlohmann::json& json, std::string_view where);

}  // namespace spillway
