#include <algorithm>
#include <array>
#include <limits>

#include "backend/arena.h"
#include "backend/kernel.h"
#include "base/bytes.h"
#include "base/index.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "graph/operation.h"
#include "ops/matmul/matmul.h"
#include "runtime/computer.h"
#include "runtime/cpu_share.h"
#include "runtime/measure.h"
#include "runtime/small_numbers.h"

namespace spillway {
namespace {

constexpr int64_t kCopyBytes = 256 * kMiB;
constexpr int kRuns = 5;

// Times work on a device's queue.
class DeviceClock {
 public:
  explicit DeviceClock(Device& device)
      : device_(device), queue_(device.make_queue()), begin_(device.make_event()), end_(device.make_event()) {}

  // Returns the best time of a few runs of put_in(queue), after one that does not count.
  template <typename PutIn>
  double seconds(const PutIn& put_in) const {
    put_in(*queue_);
    queue_->finish();
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      queue_->record(*begin_);
      put_in(*queue_);
      queue_->record(*end_);
      queue_->finish();
      best = std::min(best, end_->seconds_since(*begin_));
    }
    return best;
  }

  // Returns the bytes per second that copies move.
  [[nodiscard]] double copy_rate(std::byte* to, const std::byte* from) const {
    return static_cast<double>(kCopyBytes) / seconds([&](DeviceQueue& queue) { queue.copy(to, from, kCopyBytes); });
  }

  // Returns the seconds of one product of two square matrices; 0 if the device has no kernel.
  [[nodiscard]] double product_seconds(DType dtype, int64_t size, int times) const {
    Graph graph{.name = "product"};
    Builder b(graph);
    const ValueType type{dtype, {size, size}};
    const ValueId x = b.input("x", type, ValueKind::kBatch), y = b.input("y", type, ValueKind::kBatch);
    const OpId id = graph.value(ops::matmul(b, x, y)).producer;
    const Operation& op = graph.op(id);
    if (!op.def->kernel(device_.kind())) return 0;
    const Device::Memory memory = device_.allocate("device", 3 * type.bytes()),
                         workspace = device_.allocate("device", workspace_of(graph, id, 1, device_.kind()));
    const auto view = [&](int64_t i) { return TensorView{memory.get() + i * type.bytes(), dtype, type.shape}; };
    const std::array inputs = {view(0), view(1), TensorView{}}, outputs = {view(2), view(2), view(2)};
    ThreadPool pool(1);
    const Arena numbers("host", 2 * type.bytes());
    fill_with_small_numbers(numbers.at(0), numbers.bytes(), pool);
    queue_->copy(memory.get(), numbers.at(0), numbers.bytes());
    queue_->finish();
    device_.choose_algorithms(true);
    const double all = seconds([&](DeviceQueue& queue) {
      for (int i = 0; i < times; ++i) {
        queue.run(op.def->kernel(device_.kind()), {.inputs = inputs,
                                                   .outputs = std::span(outputs).first(1),
                                                   .workspace = workspace.get(),
                                                   .attributes = op.attributes,
                                                   .threads = &pool});
      }
    });
    device_.choose_algorithms(false);
    return all / times;
  }

 private:
  Device& device_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<DeviceEvent> begin_, end_;
};

void measure_device_products(const DeviceClock& clock, Measurement& result) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t size : {512, 1024, 2048, 4096, 8192}) {
      const double seconds = clock.product_seconds(dtype, size, size <= 2048 ? 20 : 3);
      if (seconds <= 0) continue;
      const double flops = 2.0 * static_cast<double>(size * size) * static_cast<double>(size) / seconds;
      result.products.push_back({.dtype = dtype, .size = size, .flops = flops});
      double& best = dtype == DType::kF32 ? result.machine.matrix_flops_f32 : result.machine.matrix_flops_bf16;
      best = std::max(size == 512 ? 0.0 : best, flops);
    }
  }
}

void measure_links(Device& device, const DeviceClock& clock, Machine& machine) {
  const Arena host("host", kCopyBytes);
  const Device::Pinned pinned = device.pin(span_of(host.at(0), kCopyBytes));
  const Device::Memory memory = device.allocate("device", 2 * kCopyBytes);
  nth(machine.link_bytes_per_second, Lane::kHostToDevice) = clock.copy_rate(memory.get(), host.at(0));
  nth(machine.link_bytes_per_second, Lane::kDeviceToHost) = clock.copy_rate(host.at(0), memory.get());
  // Each byte is read and written.
  machine.memory_bytes_per_second = 2 * clock.copy_rate(memory.get() + kCopyBytes, memory.get());
}

}  // namespace

Measurement measure_device(Device& device, const std::vector<std::string>& folders) {
  Measurement result;
  Machine& machine = result.machine;
  machine.name = device.description();
  machine.device = device.kind();
  machine.threads = available_cpus();
  const DeviceClock clock(device);
  measure_links(device, clock, machine);
  measure_device_products(clock, result);
  // The size of a product so small that its time is the cost of starting it.
  constexpr int64_t kTiny = 16;
  if (const double seconds = clock.product_seconds(DType::kF32, kTiny, 200); seconds > 0)
    machine.operation_seconds = seconds;
  ThreadPool pool(machine.threads);
  CpuShare cpu_share(pool);
  machine.host_bytes_per_second = measure_triad(pool);
  cpu_share.complete();
  result.cpu_share = cpu_share.value();
  if (!folders.empty()) result.disk = measure_disks(folders, kDiskBytesOfJob);
  set_disks(machine, folders, result.disk);
  for (const auto& [shape, index] : device.algorithms()) machine.algorithms[shape] = index;
  set_capacities(machine, folders, device);
  note_busy(result);
  return result;
}

}  // namespace spillway
