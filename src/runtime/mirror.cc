#include "runtime/mirror.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace spillway {
namespace {

constexpr int64_t kAlignment = 64;

int64_t bytes_for(const LoadedProgram& loaded) {
  const Graph& graph = loaded.graph();
  int64_t bytes = 0;
  for (const Operand& home : loaded.program().homes) {
    if (graph.value(home.value).kind == ValueKind::kBatch) bytes += align_up(home.place.bytes, kAlignment);
  }
  for (const Operand& result : loaded.program().results) bytes += align_up(result.place.bytes, kAlignment);
  return bytes;
}

}  // namespace

Mirror::Mirror(LoadedProgram& loaded) : loaded_(loaded), memory_("host", bytes_for(loaded)) {
  pinned_ = loaded.device().pin({memory_.at(0), static_cast<size_t>(memory_.bytes())});
  int64_t top = 0;
  const auto add = [&](const Operand& operand, std::vector<Copy>& copies) {
    const TensorView device = loaded.view(operand);
    copies.push_back(
        {operand.value, static_cast<std::byte*>(device.data), {memory_.at(top), device.dtype, device.shape}});
    top += align_up(device.bytes(), kAlignment);
  };
  for (const Operand& home : loaded.program().homes) {
    if (loaded.graph().value(home.value).kind == ValueKind::kBatch) add(home, batch_);
  }
  for (const Operand& result : loaded.program().results) add(result, results_);
}

TensorView Mirror::home(ValueId id) const {
  const auto found = std::find_if(batch_.begin(), batch_.end(), [&](const Copy& copy) { return copy.value == id; });
  SPILLWAY_CHECK(found != batch_.end(), "{} is in the device's memory, which the host does not share",
                 loaded_.graph().value(id).name);
  return found->host;
}

void Mirror::send_batch() {
  DeviceQueue& queue = loaded_.device_queue(Lane::kCompute);
  for (const Copy& copy : batch_) queue.copy(copy.device, copy.host.data, copy.host.bytes());
  // Other lanes' queues do not wait for this one.
  queue.finish();
}

void Mirror::fetch_results(Phase phase) {
  const Graph& graph = loaded_.graph();
  DeviceQueue& queue = loaded_.device_queue(Lane::kCompute);
  for (const Copy& copy : results_) {
    if (graph.op(graph.value(copy.value).producer).phase == phase)
      queue.copy(copy.host.data, copy.device, copy.host.bytes());
  }
  queue.finish();
}

}  // namespace spillway
