#include "runtime/mirror.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"

namespace spillway {
namespace {

constexpr int64_t kMirrorAlignment = 64;
// The bytes of a large result: it takes some microseconds on its way to the host.
constexpr int64_t kLarge = 256 * kKiB;

int64_t bytes_for(const LoadedProgram& loaded) {
  const Graph& graph = loaded.graph();
  int64_t bytes = 0;
  for (const Operand& home : loaded.program().homes) {
    if (graph.value(home.value).kind == ValueKind::kBatch) bytes += align_up(home.place.bytes, kMirrorAlignment);
  }
  for (const Operand& result : loaded.program().results) bytes += align_up(result.place.bytes, kMirrorAlignment);
  return bytes;
}

}  // namespace

Mirror::Mirror(LoadedProgram& loaded) : loaded_(loaded), memory_("host", bytes_for(loaded)) {
  pinned_ = loaded.device().pin(span_of(memory_.at(0), memory_.bytes()));
  for (const Operand& home : loaded.program().homes) {
    if (loaded.graph().value(home.value).kind == ValueKind::kBatch)
      batch_.push_back({next_copy(home), std::vector<bool>(loaded.program().sections.size())});
  }
  for (const Operand& result : loaded.program().results) results_.push_back({next_copy(result)});
  find_readers();
}

Mirror::Copy Mirror::next_copy(const Operand& operand) {
  const TensorView device = loaded_.view(operand);
  const Copy copy{operand.value, static_cast<std::byte*>(device.data), {memory_.at(top_), device.dtype, device.shape}};
  top_ += align_up(device.bytes(), kMirrorAlignment);
  return copy;
}

void Mirror::find_readers() {
  const Program& program = loaded_.program();
  for (size_t section = 0; section < program.sections.size(); ++section) {
    for (int32_t i = program.sections[section].begin; i < program.sections[section].end; ++i) {
      for (const Operand& input : nth(program.instructions, i).inputs) {
        const auto batch =
            std::find_if(batch_.begin(), batch_.end(), [&](const Batch& one) { return one.copy.value == input.value; });
        if (batch != batch_.end()) batch->is_read[section] = true;
      }
    }
  }
}

TensorView Mirror::home(ValueId id) {
  const auto found = std::find_if(batch_.begin(), batch_.end(), [&](const Batch& one) { return one.copy.value == id; });
  SPILLWAY_CHECK(found != batch_.end(), "{} is in the device's memory, which the host does not share",
                 loaded_.graph().value(id).name);
  found->has_changed = true;
  return found->copy.host;
}

void Mirror::send_batch(SectionId section) {
  DeviceQueue& queue = loaded_.memory().device_queue(Lane::kCompute);
  bool has_sent = false;
  for (auto& [copy, is_read, has_changed] : batch_) {
    if (!has_changed || !nth(is_read, section)) continue;
    queue.copy(copy.device, copy.host.data, copy.host.bytes());
    has_changed = false;
    has_sent = true;
  }
  // Other lanes' queues do not wait for this one.
  if (has_sent) queue.finish();
}

void Mirror::fetch_results(SectionId section) {
  const Graph& graph = loaded_.graph();
  DeviceQueue& queue = loaded_.memory().device_queue(Lane::kCompute);
  for (Result& result : results_) {
    if (graph.op(graph.value(result.copy.value).producer).section != section) continue;
    result.is_here = false;
    if (result.copy.host.bytes() < kLarge) fetch(result, queue);
  }
  queue.finish();
}

void Mirror::fetch(Result& result, DeviceQueue& queue) {
  queue.copy(result.copy.host.data, result.copy.device, result.copy.host.bytes());
  result.is_here = true;
}

TensorView Mirror::result(size_t index) {
  Result& result = results_[index];
  if (!result.is_here) {
    DeviceQueue& queue = loaded_.memory().device_queue(Lane::kCompute);
    fetch(result, queue);
    queue.finish();
  }
  return result.copy.host;
}

}  // namespace spillway
