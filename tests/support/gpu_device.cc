// Makes a test program run the operations on this machine's first GPU; linked into ops_gpu_test. Their buffers stay on
// the host, where the harness looks at them; they cross for each operation. Where there is no GPU and none is required,
// the CPU's kernels run.
#include <doctest/doctest.h>

#include <map>

#include "backend/device.h"
#include "base/bytes.h"
#include "base/math.h"
#include "ops/testing.h"
#include "tests/support/require_gpu.h"

namespace spillway::ops::testing {
namespace {

class Gpu : public TestDevice {
 public:
  Gpu() { set_device(*this); }

  int64_t workspace_bytes(const Graph& graph, OpId id, int threads) override {
    const bool has_kernel = graph.op(id).def->cuda != nullptr;
    const bool on_gpu = has_kernel && is_used();
    return workspace_of(graph, id, threads, on_gpu ? DeviceKind::kCuda : DeviceKind::kCpu);
  }

  void run(const OpDef& def, const KernelArgs& args, int) override {
    if (!is_used()) return def.cpu(args);
    if (def.cuda == nullptr) {
      CHECK_MESSAGE(def.name == "weighted_sum", def.name << " has no CUDA kernel");
      return def.cpu(args);
    }
    open();
    Crossing crossing(*this);
    std::vector<TensorView> inputs(args.inputs.begin(), args.inputs.end());
    std::vector<TensorView> outputs(args.outputs.begin(), args.outputs.end());
    for (TensorView& view : outputs) view.data = crossing.take(view);
    for (TensorView& view : inputs) view.data = crossing.take(view);
    queue_->run(def.cuda,
                {.inputs = inputs, .outputs = outputs, .workspace = crossing.rest(), .attributes = args.attributes});
    crossing.bring_back();
  }

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

  // Copies what kernels work on into the arena, each buffer once, and back.
  class Crossing {
   public:
    explicit Crossing(Gpu& gpu) : gpu_(gpu) {}

    std::byte* take(const TensorView& view) {
      if (view.data == nullptr) return nullptr;
      const auto [entry, is_new] = taken_.try_emplace(view.as<std::byte>(), Buffer{rest(), view.bytes()});
      if (is_new) {
        used_ += align_up(view.bytes(), 256);
        SPILLWAY_CHECK(used_ <= kArenaBytes, "{} bytes of tests' tensors", used_);
        gpu_.queue_->copy(entry->second.data, view.data, view.bytes());
      }
      return entry->second.data;
    }
    [[nodiscard]] std::byte* rest() const { return gpu_.arena_.get() + used_; }

    void bring_back() {
      for (const auto& [host, buffer] : taken_) gpu_.queue_->copy(host, buffer.data, buffer.bytes);
      gpu_.queue_->finish();
    }

   private:
    struct Buffer {
      std::byte* data;
      int64_t bytes;
    };
    Gpu& gpu_;
    std::map<std::byte*, Buffer> taken_;
    int64_t used_ = 0;
  };

  std::shared_ptr<Device> device_;
  Device::Memory arena_;
  std::unique_ptr<DeviceQueue> queue_;
};

// Never destroyed: at exit the libraries behind its memory and its queue may be gone before it.
Gpu& gpu = *new Gpu;

}  // namespace
}  // namespace spillway::ops::testing
