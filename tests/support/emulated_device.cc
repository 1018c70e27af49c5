// Makes a test program run the CUDA kernels on the CPU; linked into ops_emulated_test.
#include <doctest/doctest.h>

#include "backend/testing/simt.h"
#include "ops/testing.h"

namespace spillway::ops::testing {
namespace {

class Emulated : public TestDevice {
 public:
  Emulated() { set_device(*this); }

  int64_t workspace_bytes(const Graph& graph, OpId id, int threads) override {
    const bool emulated = graph.op(id).def->cuda != nullptr;
    return workspace_of(graph, id, threads, emulated ? DeviceKind::kCuda : DeviceKind::kCpu);
  }
  // Matrix products come from a library, and the end of a graph under test from the harness; neither has a kernel here.
  void run(const OpDef& def, const KernelArgs& args, int threads) override {
    if (def.cuda == nullptr) {
      CHECK_MESSAGE((def.name == "matmul" || def.name == "weighted_sum"), def.name << " has no CUDA kernel");
      return def.cpu(args);
    }
    simt::set_order(static_cast<uint64_t>(threads));
    def.cuda(args);
  }
};

Emulated emulated;

}  // namespace
}  // namespace spillway::ops::testing
