#include "plan/usage.h"

#include <algorithm>

#include "base/error.h"
#include "graph/operation.h"

namespace spillway {
namespace {

// REQUIRES: the buffer is alive at `step` and not a workspace.
const Value& tenant_at(const Graph& graph, const Buffer& buffer, int32_t step) {
  const Tenant* tenant = &buffer.tenants.front();
  for (const Tenant& next : buffer.tenants) {
    if (next.begin <= step) tenant = &next;
  }
  return graph.value(tenant->value);
}

MemoryClass class_of(const Graph& graph, const Schedule& schedule, const Buffer& buffer, int32_t step) {
  if (buffer.tenants.empty()) return MemoryClass::kTransient;
  const Value& tenant = tenant_at(graph, buffer, step);
  if (tenant.kind != ValueKind::kActivation) return class_of_moved(tenant);
  const int32_t forward_end = schedule.sections[0].end;
  return buffer.begin < forward_end && buffer.end > forward_end ? MemoryClass::kSavedActivation
                                                                : MemoryClass::kTransient;
}

}  // namespace

std::string_view name_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kFrozenWeight:
      return "frozen_weight";
    case MemoryClass::kTrainableWeight:
      return "trainable_weight";
    case MemoryClass::kOptimizerState:
      return "optimizer_state";
    case MemoryClass::kGradient:
      return "gradient";
    case MemoryClass::kSavedActivation:
      return "saved_activation";
    case MemoryClass::kTransient:
      return "transient";
    case MemoryClass::kBatch:
      return "batch";
    case MemoryClass::kCache:
      return "cache";
  }
  report_bug(__FILE__, __LINE__, "memory class", "unknown");
}

MemoryClass class_of_moved(const Value& value) {
  switch (value.kind) {
    case ValueKind::kFrozenWeight:
      return MemoryClass::kFrozenWeight;
    case ValueKind::kTrainableWeight:
      return MemoryClass::kTrainableWeight;
    case ValueKind::kOptimizerState:
      return MemoryClass::kOptimizerState;
    case ValueKind::kGradient:
      return MemoryClass::kGradient;
    case ValueKind::kActivation:
      return MemoryClass::kSavedActivation;
    case ValueKind::kBatch:
      return MemoryClass::kBatch;
    case ValueKind::kCache:
      return MemoryClass::kCache;
  }
  report_bug(__FILE__, __LINE__, "value kind", "unknown");
}

std::vector<LiveBuffer> alive_at(const Graph& graph, const Schedule& schedule, Tier tier, int32_t step) {
  std::vector<LiveBuffer> result;
  for (const Buffer& b : schedule.buffers) {
    if (b.tier != tier || b.begin > step || b.end <= step) continue;
    const MemoryClass memory_class = class_of(graph, schedule, b, step);
    if (b.tenants.empty()) {
      const Operation& op = graph.op(schedule.steps[static_cast<size_t>(b.begin)].op);
      result.push_back({fmt::format("workspace of {}", graph.value(op.outputs[0]).name), memory_class, b.bytes});
    } else {
      result.push_back({tenant_at(graph, b, step).name, memory_class, b.bytes});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
  return result;
}

ClassBytes usage_at(const Graph& graph, const Schedule& schedule, Tier tier, int32_t step) {
  ClassBytes result{};
  for (const Buffer& b : schedule.buffers) {
    if (b.tier != tier || b.begin > step || b.end <= step) continue;
    result[static_cast<size_t>(class_of(graph, schedule, b, step))] += b.bytes;
  }
  return result;
}

std::vector<ClassBytes> usage_over_steps(const Graph& graph, const Schedule& schedule, Tier tier) {
  // First the changes, then their running sums.
  std::vector<ClassBytes> usage(schedule.steps.size() + 1);
  const auto change = [&](int32_t step, MemoryClass memory_class, int64_t bytes) {
    usage[static_cast<size_t>(step)][static_cast<size_t>(memory_class)] += bytes;
  };
  for (const Buffer& b : schedule.buffers) {
    if (b.tier != tier || b.begin >= b.end) continue;
    MemoryClass now = class_of(graph, schedule, b, b.begin);
    change(b.begin, now, b.bytes);
    for (const Tenant& tenant : b.tenants) {
      if (tenant.begin <= b.begin || tenant.begin >= b.end) continue;
      const MemoryClass next = class_of(graph, schedule, b, tenant.begin);
      change(tenant.begin, now, -b.bytes);
      change(tenant.begin, next, b.bytes);
      now = next;
    }
    change(b.end, now, -b.bytes);
  }
  for (size_t step = 1; step < usage.size(); ++step) {
    for (size_t c = 0; c < kMemoryClasses; ++c) usage[step][c] += usage[step - 1][c];
  }
  usage.pop_back();
  return usage;
}

std::string describe_step(const Graph& graph, const Schedule& schedule, int32_t step) {
  const Step& s = schedule.steps[static_cast<size_t>(step)];
  if (s.op == kNone) return fmt::format("{} on its way on {}", graph.value(s.moved).name, name_of(s.lane));
  const Operation& op = graph.op(s.op);
  std::string text(name_of(s.recompute ? Phase::kBackward : op.phase));
  if (op.block != kNone) text += ", " + graph.blocks[static_cast<size_t>(op.block)].name;
  text += fmt::format(", {}{}", op.def->name, s.recompute ? " again" : "");
  return text;
}

}  // namespace spillway
