// Makes a test program run the operations on this machine's first GPU; linked into ops_gpu_test. Their buffers stay on
// the host, where the harness looks at them; they cross for each operation. Where there is no GPU and none is required,
// the CPU's kernels run.
#include <doctest/doctest.h>

#include "backend/device.h"
#include "base/bytes.h"
#include "ops/testing.h"
#include "tests/support/poisoned_arena.h"
#include "tests/support/require_gpu.h"

namespace spillway::ops::testing {
namespace {

class Gpu : public TestDevice {
 public:
  Gpu() { set_device(*this); }

  int64_t workspace_bytes(const Graph& graph, OpId id, int threads) override {
    if (graph.op(id).def->cuda == nullptr || !is_used()) return workspace_of(graph, id, threads);
    workspace_bytes_ = workspace_of(graph, id, threads, DeviceKind::kCuda);
    return 0;  // it lies in the arena
  }

  void run(const OpDef& def, const KernelArgs& args, int) override {
    if (!is_used()) return def.cpu(args);
    if (def.cuda == nullptr) {
      CHECK_MESSAGE(def.name == "weighted_sum", def.name << " has no CUDA kernel");
      return def.cpu(args);
    }
    open();
    PoisonedArena arena(arena_.get(), kArenaBytes, [this](void* to, const void* from, int64_t bytes) {
      queue_->copy(to, from, bytes);
      queue_->finish();
    });
    arena.run(args, workspace_bytes_, [&](const KernelArgs& placed) { queue_->run(def.cuda, placed); });
  }

  // cuBLASLt may split a product's sum and add the parts to the accumulator one after another.
  [[nodiscard]] bool adds_once() const override { return !is_used(); }

 private:
  static constexpr int64_t kArenaBytes = 2 * kGiB;

  // Asked of every case, so that each fails where a GPU is required and missing.
  static bool is_used() { return spillway::testing::has_gpu(); }

  void open() {
    if (device_ != nullptr) return;
    device_ = open_device("cuda");
    arena_ = device_->allocate("device", kArenaBytes);
    queue_ = device_->make_queue();
  }

  int64_t workspace_bytes_ = 0;  // of the operation that is run next
  std::shared_ptr<Device> device_;
  Device::Memory arena_;
  std::unique_ptr<DeviceQueue> queue_;
};

// Never destroyed: at exit the libraries behind its memory and its queue may be gone before it.
Gpu& gpu = *new Gpu;

}  // namespace
}  // namespace spillway::ops::testing
