#include "runtime/measure.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/index.h"
#include "io/disk_space.h"
#include "runtime/computer.h"
#include "runtime/cpu_share.h"
#include "runtime/loaded_program.h"

namespace spillway {
namespace {

template <typename Body>
double best_seconds(int runs, const Body& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const double begin = now_seconds();
    body();
    best = std::min(best, now_seconds() - begin);
  }
  return best;
}

std::vector<MatrixRate> measure_products(ThreadPool& pool, CpuShare& cpu_share) {
  std::vector<MatrixRate> rates;
  const auto measure = [&](DType dtype, cpu::Bf16Path path) {
    for (const int64_t size : {128, 256, 512, 1024}) {
      rates.push_back({dtype, path, size, cpu::measure_matmul_flops(dtype, path, pool, size)});
      cpu_share.sample();
    }
  };
  measure(DType::kF32, cpu::Bf16Path::kWidenToF32);
  measure(DType::kBF16, cpu::Bf16Path::kWidenToF32);
  if (cpu::has_native_bf16_dot()) measure(DType::kBF16, cpu::Bf16Path::kNativeDot);
  return rates;
}

// Returns the rate for the largest matrices, by the path that products will take.
double large_product_flops(const std::vector<MatrixRate>& rates, DType dtype) {
  double flops = 0;
  for (const MatrixRate& rate : rates) {
    if (rate.dtype == dtype && (dtype != DType::kBF16 || rate.path == cpu::choose_bf16_path())) flops = rate.flops;
  }
  return flops;
}

}  // namespace

void set_capacities(Machine& machine, const std::vector<std::string>& folders, const Device& device) {
  const bool is_host = device.shares_host_memory();
  nth(machine.capacity_bytes, Tier::kDevice) = is_host ? available_memory_bytes() : device.free_bytes();
  nth(machine.capacity_bytes, Tier::kHost) =
      is_host ? 0 : std::max<int64_t>(0, available_memory_bytes() - TierOptions::bridge_bytes());
  nth(machine.capacity_bytes, Tier::kDisk) = free_striped_bytes(folders);
  machine.total_bytes = {};
  nth(machine.total_bytes, Tier::kDevice) = device.total_bytes();
  nth(machine.total_bytes, is_host ? Tier::kDevice : Tier::kHost) = total_memory_bytes();
}

double measure_triad(ThreadPool& pool) {
  constexpr int64_t kElems = 64 * kMiB / 8;
  constexpr int64_t kGrain = 1 << 16;
  // The arrays are first touched by the threads that will use them.
  const std::unique_ptr<double[]> a(new double[kElems]), b(new double[kElems]), c(new double[kElems]);
  pool.parallel_for(kElems, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) a[i] = b[i] = c[i] = 1;
  });
  const double seconds = best_seconds(5, [&] {
    pool.parallel_for(kElems, kGrain, [&](int64_t begin, int64_t end, int) {
      double* __restrict to = a.get();
      const double *left = b.get(), *right = c.get();
      for (int64_t i = begin; i < end; ++i) to[i] = left[i] + 3 * right[i];
    });
  });
  return 3.0 * 8 * kElems / seconds;
}

double measure_copy() {
  constexpr size_t kBytes = 64 * kMiB;
  const std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  return static_cast<double>(kBytes) / best_seconds(5, [&] { std::memcpy(to.data(), from.data(), kBytes); });
}

double measure_dispatch(ThreadPool& pool) {
  constexpr int kTimes = 200;
  const double seconds = best_seconds(5, [&] {
    for (int i = 0; i < kTimes; ++i) pool.parallel_for(pool.threads(), 1, [](int64_t, int64_t, int) {});
  });
  return seconds / kTimes;
}

Measurement measure_machine(const std::vector<std::string>& folders, int64_t max_disk_bytes) {
  ThreadPool pool(available_cpus());
  CpuShare cpu_share(pool);
  Measurement result;
  result.products = measure_products(pool, cpu_share);
  if (!folders.empty()) result.disk = measure_disks(folders, max_disk_bytes);
  Machine& machine = result.machine;
  machine.name = cpu_name();
  machine.threads = pool.threads();
  machine.matrix_flops_f32 = large_product_flops(result.products, DType::kF32);
  machine.matrix_flops_bf16 = large_product_flops(result.products, DType::kBF16);
  machine.memory_bytes_per_second = measure_triad(pool);
  cpu_share.sample();
  machine.operation_seconds = measure_dispatch(pool);
  cpu_share.sample();
  nth(machine.link_bytes_per_second, Lane::kHostToDevice) = measure_copy();
  nth(machine.link_bytes_per_second, Lane::kDeviceToHost) = nth(machine.link_bytes_per_second, Lane::kHostToDevice);
  // A copy has a thread, which takes a core from the compute lane; the host_compute lane has as many threads as that
  // lane.
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost})
    nth(machine.compute_share, lane) = 1.0 / machine.threads;
  nth(machine.compute_share, Lane::kHostCompute) = 0.5;
  cpu_share.sample();
  result.cpu_share = cpu_share.value();
  set_disks(machine, folders, result.disk);
  set_capacities(machine, folders, cpu_device());
  note_busy(result);
  return result;
}

void note_busy(Measurement& measurement) {
  measurement.machine.cpu_shares.rates = measurement.cpu_share;
  const double least = std::min(measurement.cpu_share, measurement.disk.cpu_share);
  if (least < kMinCpuShare) say_busy("its rates", least);
}

}  // namespace spillway
