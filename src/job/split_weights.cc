#include "job/split_weights.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/part.h"

namespace spillway::train {
namespace {

class WeightSplitter {
 public:
  WeightSplitter(Graph& graph, int ranks, const WeightNames& names) : graph_(graph), ranks_(ranks) {
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
      Value& value = graph.value(id);
      if (!graph.is_persistent(id) || !names.contains(value.name)) continue;
      weights_.emplace(id, Weight{.whole = value.type});
      value.type = ops::part_type(value.type, ranks);
      value.split = true;
    }
  }

  void run() {
    std::vector<Operation> before = std::exchange(graph_.ops, {});
    for (Operation& op : before) {
      for (ValueId& input : op.inputs) {
        if (const auto weight = weights_.find(input); weight != weights_.end()) input = gathered(*weight, op.section);
      }
      append(std::move(op));
    }
  }

 private:
  struct Weight {
    ValueType whole;
    ValueId gathered = kNone;  // what the last section that gathers it has made
    SectionId section = kNone;
  };

  ValueId gathered(std::pair<const ValueId, Weight>& entry, SectionId section) {
    auto& [id, weight] = entry;
    const bool is_backward = weight.section != kNone && nth(graph_.sections, weight.section).recomputable &&
                             !nth(graph_.sections, section).recomputable;
    if (weight.section == section || is_backward) return weight.gathered;
    const BlockId block = graph_.value(id).block;
    Operation gather = ops::all_gather_operation(id, weight.whole.shape, ranks_);
    gather.section = section;
    gather.block = block;
    weight.section = section;
    weight.gathered = static_cast<ValueId>(graph_.values.size());
    gather.outputs = {weight.gathered};
    graph_.values.push_back({.name = fmt::format("{}.{}", graph_.value(id).name, nth(graph_.sections, section).name),
                             .type = weight.whole,
                             .block = block});
    append(std::move(gather));
    return weight.gathered;
  }

  void append(Operation op) {
    for (const ValueId output : op.outputs) graph_.value(output).producer = static_cast<OpId>(graph_.ops.size());
    graph_.ops.push_back(std::move(op));
  }

  Graph& graph_;
  int ranks_;
  std::map<ValueId, Weight> weights_;
};

}  // namespace

void split_weights(Graph& graph, int ranks, const WeightNames& names) { WeightSplitter(graph, ranks, names).run(); }

}  // namespace spillway::train
