#include "plan/expert_slots.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

// Returns, by value, the number of the expert whose weight it is, or -1: operations say which (OpDef::guard).
std::vector<int32_t> experts_of_values(const Graph& graph) {
  std::vector<int32_t> experts(graph.values.size(), -1);
  for (OpId id = 0; id < std::ssize(graph.ops); ++id) {
    const std::vector<ValueId>& inputs = graph.op(id).inputs;
    for (int i = 0; i < std::ssize(inputs); ++i) {
      const ValueId input = nth(inputs, i);
      if (input == kNone || !graph.is_persistent(input)) continue;
      if (const auto guard = guard_of(graph, id, i)) nth(experts, input) = guard->index;
    }
  }
  return experts;
}

// The coming and going of an expert's weight.
struct Change {
  int32_t step = 0;
  int32_t expert = 0;
  int by = 0;
};

int64_t most_at_once(std::vector<Change> changes) {
  // A weight that goes makes room for one that comes at the same step.
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.step != b.step ? a.step < b.step : a.by < b.by; });
  std::map<int32_t, int> weights;  // on the device, by expert
  size_t most = 0;
  for (const Change& change : changes) {
    const auto at = weights.try_emplace(change.expert, 0).first;
    at->second += change.by;
    if (at->second == 0) weights.erase(at);
    most = std::max(most, weights.size());
  }
  return static_cast<int64_t>(most);
}

}  // namespace

std::vector<int64_t> expert_slots(const Graph& graph, const Schedule& schedule) {
  const std::vector<int32_t> experts = experts_of_values(graph);
  std::vector<std::vector<Change>> changes(graph.blocks.size());
  const auto add = [&](ValueId value, int32_t begin, int32_t end) {
    const BlockId block = graph.value(value).block;
    if (block == kNone || nth(experts, value) < 0) return;
    nth(changes, block).push_back({begin, nth(experts, value), 1});
    nth(changes, block).push_back({end, nth(experts, value), -1});
  };
  for (ValueId value = 0; value < std::ssize(schedule.persistent); ++value) {
    const BufferId home = nth(schedule.persistent, value);
    if (home != kNone && nth(schedule.buffers, home).tier == Tier::kDevice)
      add(value, 0, std::numeric_limits<int32_t>::max());
  }
  for (const Step& step : schedule.steps) {
    if (step.op != kNone || step.moved == kNone) continue;
    const ValueId root = graph.persistent_root(step.moved);
    if (root == kNone) continue;
    for (const BufferId id : schedule.outputs(step)) {
      const Buffer& buffer = nth(schedule.buffers, id);
      if (buffer.tier == Tier::kDevice && !buffer.fixed) add(root, buffer.begin, buffer.end);
    }
  }
  std::vector<int64_t> slots;
  for (std::vector<Change>& of_block : changes) slots.push_back(most_at_once(std::move(of_block)));
  return slots;
}

}  // namespace spillway
