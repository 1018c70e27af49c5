#include "plan/usage.h"

#include <algorithm>
#include <array>

#include "base/index.h"
#include "graph/operation.h"
#include "plan/groups.h"

namespace spillway {
namespace {

// By ValueKind. Activations that move are saved ones.
constexpr std::array<MemoryClass, kValueKinds> kClassOfKind = {
    MemoryClass::kFrozenWeight,    MemoryClass::kTrainableWeight, MemoryClass::kOptimizerState, MemoryClass::kGradient,
    MemoryClass::kSavedActivation, MemoryClass::kBatch,           MemoryClass::kCache};

// A value that lives in a buffer from step `begin` on, until the next value takes its place or the buffer ends.
struct BufferValue {
  BufferId buffer = kNone;
  ValueId value = kNone;
  int32_t begin = 0;
};

// All values of a tier's buffers. A buffer without any is the workspace of the step in which it begins.
class BufferValues {
 public:
  BufferValues(const Graph& graph, const Schedule& schedule, Tier tier)
      : graph_(graph), schedule_(schedule), tier_(tier) {
    for (size_t v = 0; v < schedule.persistent.size(); ++v) add(schedule.persistent[v], static_cast<ValueId>(v), 0);
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      const std::span<const BufferId> outputs = schedule.outputs(step);
      for (size_t k = 0; k < outputs.size(); ++k)
        add(outputs[k], step.op == kNone ? step.moved : graph.op(step.op).outputs[k], static_cast<int32_t>(i));
    }
    by_buffer_ = Groups(schedule.buffers.size(), all_.size(), [&](size_t i) { return all_[i].buffer; });
    for (size_t i = 0; i < graph.sections.size(); ++i) {
      if (graph.sections[i].recomputable) forward_end_ = schedule.sections[i].end;
    }
  }

  [[nodiscard]] std::span<const int32_t> of(BufferId buffer) const { return nth(by_buffer_, buffer); }
  [[nodiscard]] const BufferValue& operator[](int32_t i) const { return nth(all_, i); }

  // REQUIRES: the buffer is live at `step` and not a workspace.
  [[nodiscard]] const Value& at(BufferId buffer, int32_t step) const {
    const std::span<const int32_t> values = of(buffer);
    int32_t found = values.front();
    for (const int32_t next : values) {
      if ((*this)[next].begin <= step) found = next;
    }
    return graph_.value((*this)[found].value);
  }

  [[nodiscard]] MemoryClass class_of(BufferId buffer, int32_t step) const {
    if (of(buffer).empty()) return MemoryClass::kTransient;
    const Value& value = at(buffer, step);
    if (value.kind != ValueKind::kActivation) return class_of_moved(value);
    const Buffer& b = nth(schedule_.buffers, buffer);
    return b.begin < forward_end_ && b.end > forward_end_ ? MemoryClass::kSavedActivation : MemoryClass::kTransient;
  }

  // Visits all buffers of the tier that are live at a step.
  template <typename Visit>
  void visit_live(int32_t step, const Visit& visit) const {
    for (BufferId id = 0; id < std::ssize(schedule_.buffers); ++id) {
      const Buffer& b = nth(schedule_.buffers, id);
      if (b.tier == tier_ && b.begin <= step && b.end > step) visit(id, b);
    }
  }

 private:
  void add(BufferId buffer, ValueId value, int32_t begin) {
    if (buffer != kNone && nth(schedule_.buffers, buffer).tier == tier_) all_.push_back({buffer, value, begin});
  }

  const Graph& graph_;
  const Schedule& schedule_;
  Tier tier_;
  int32_t forward_end_ = 0;       // the end of the forward pass: values that are live beyond it were saved
  std::vector<BufferValue> all_;  // of each buffer in the order in which they move in
  Groups by_buffer_;
};

}  // namespace

std::string_view name_of(MemoryClass memory_class) {
  if (memory_class == MemoryClass::kSavedActivation) return "saved_activation";
  if (memory_class == MemoryClass::kTransient) return "transient";
  const auto kind = std::find(kClassOfKind.begin(), kClassOfKind.end(), memory_class) - kClassOfKind.begin();
  return name_of(static_cast<ValueKind>(kind));
}

MemoryClass class_of_moved(const Value& value) { return nth(kClassOfKind, value.kind); }

std::vector<LiveBuffer> live_at(const Graph& graph, const Schedule& schedule, Tier tier, int32_t step) {
  std::vector<LiveBuffer> result;
  const BufferValues values(graph, schedule, tier);
  values.visit_live(step, [&](BufferId id, const Buffer& b) {
    const MemoryClass memory_class = values.class_of(id, step);
    if (values.of(id).empty()) {
      const Operation& op = graph.op(nth(schedule.steps, b.begin).op);
      result.push_back({fmt::format("workspace of {}", graph.value(op.outputs[0]).name), memory_class, b.bytes});
    } else {
      result.push_back({values.at(id, step).name, memory_class, b.bytes});
    }
  });
  std::stable_sort(result.begin(), result.end(),
                   [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
  return result;
}

ClassBytes usage_at(const Graph& graph, const Schedule& schedule, Tier tier, int32_t step) {
  ClassBytes result{};
  const BufferValues values(graph, schedule, tier);
  values.visit_live(step, [&](BufferId id, const Buffer& b) { nth(result, values.class_of(id, step)) += b.bytes; });
  return result;
}

std::vector<ClassBytes> usage_over_steps(const Graph& graph, const Schedule& schedule, Tier tier) {
  // The vector holds first the changes, then their running sums.
  std::vector<ClassBytes> usage(schedule.steps.size() + 1);
  const auto change = [&](int32_t step, MemoryClass memory_class, int64_t bytes) {
    nth(nth(usage, step), memory_class) += bytes;
  };
  const BufferValues values(graph, schedule, tier);
  for (BufferId id = 0; id < std::ssize(schedule.buffers); ++id) {
    const Buffer& b = nth(schedule.buffers, id);
    if (b.tier != tier || b.begin >= b.end) continue;
    MemoryClass now = values.class_of(id, b.begin);
    change(b.begin, now, b.bytes);
    for (const int32_t value : values.of(id)) {
      const int32_t begin = values[value].begin;
      if (begin <= b.begin || begin >= b.end) continue;
      const MemoryClass next = values.class_of(id, begin);
      change(begin, now, -b.bytes);
      change(begin, next, b.bytes);
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

namespace {

const Section& section_at(const Graph& graph, const Schedule& schedule, int32_t step) {
  const auto range = std::find_if(schedule.sections.begin(), schedule.sections.end(),
                                  [&](const SectionRange& one) { return step < one.end; });
  return nth(graph.sections, range - schedule.sections.begin());
}

}  // namespace

std::string describe_step(const Graph& graph, const Schedule& schedule, int32_t step) {
  const Step& s = nth(schedule.steps, step);
  if (s.op == kNone) return fmt::format("{} of {}", name_of(s.lane), graph.value(s.moved).name);
  const Operation& op = graph.op(s.op);
  std::string text = section_at(graph, schedule, step).name;
  if (op.block != kNone) text += ", " + nth(graph.blocks, op.block).name;
  text += fmt::format(", {}{}", op.def->name, s.recompute ? " again" : "");
  return text;
}

}  // namespace spillway
