// Makes a test program run the CUDA kernels on the CPU; linked into ops_emulated_test.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "backend/testing/simt.h"
#include "base/bytes.h"
#include "ops/testing.h"
#include "tests/support/poisoned_arena.h"

namespace spillway::ops::testing {
namespace {

class Emulated : public TestDevice {
 public:
  Emulated() { set_device(*this); }

  int64_t workspace_bytes(const Graph& graph, OpId id, int threads) override {
    if (graph.op(id).def->cuda == nullptr) return workspace_of(graph, id, threads);
    workspace_bytes_ = workspace_of(graph, id, threads, DeviceKind::kCuda);
    return 0;  // it lies in the arena
  }
  // Matrix products come from a library, and the end of a graph under test from the harness; neither has a kernel here.
  void run(const OpDef& def, const KernelArgs& args, int threads) override {
    if (def.cuda == nullptr) {
      CHECK_MESSAGE((def.name == "matmul" || def.name == "weighted_sum"), def.name << " has no CUDA kernel");
      return def.cpu(args);
    }
    simt::set_order(static_cast<uint64_t>(threads));
    PoisonedArena arena(memory_.get(), kArenaBytes, [](void* to, const void* from, int64_t bytes) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    });
    arena.run(args, workspace_bytes_, def.cuda);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  static constexpr int64_t kArenaBytes = kGiB;

  int64_t workspace_bytes_ = 0;  // of the operation that is run next
  // What no case touches takes no memory.
  std::unique_ptr<std::byte, Free> memory_{static_cast<std::byte*>(std::aligned_alloc(256, kArenaBytes))};
};

Emulated emulated;

}  // namespace
}  // namespace spillway::ops::testing
