#include "report/expert_loads.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

// An expert in a pass: by the section, whether it is recomputed there, and the expert's number among the offsets that
// its layer's router made.
using ExpertInPass = std::tuple<size_t, bool, ValueId, int32_t>;

// Counts the copies of each tensor of an expert in each pass. An expert is known by the guard of what reads it.
class LoadCounter {
 public:
  LoadCounter(const Graph& graph, const Program& program, const Executor& executor)
      : graph_(graph), program_(program), executor_(executor) {}

  [[nodiscard]] ExpertLoads count() {
    for (size_t section = 0; section < program_.sections.size(); ++section) {
      reader_.assign(graph_.values.size(), kNone);
      for (int32_t i = program_.sections[section].end; i-- > program_.sections[section].begin;) add(section, i);
    }
    ExpertLoads result{.bytes = bytes_};
    for (const auto& [expert, tensors] : moves_) {
      const auto most = std::max_element(tensors.begin(), tensors.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      result.loads += most->second;
    }
    return result;
  }

 private:
  // Instructions come from the last to the first, so that the readers of a copy are those met since the last copy.
  void add(size_t section, int32_t number) {
    const Instruction& instruction = nth(program_.instructions, number);
    if (instruction.kind == Instruction::Kind::kRun) {
      for (const Operand& input : instruction.inputs)
        if (input.value != kNone) nth(reader_, input.value) = number;
      return;
    }
    const Operand& to = instruction.outputs[0];
    if (to.place.tier != Tier::kDevice || nth(reader_, to.value) == kNone) return;
    const Instruction& reader = nth(program_.instructions, nth(reader_, to.value));
    nth(reader_, to.value) = kNone;
    const auto input = std::find_if(reader.inputs.begin(), reader.inputs.end(),
                                    [&](const Operand& operand) { return operand.value == to.value; });
    const std::optional<Guard> guard = guard_of(graph_, reader.op, static_cast<int>(input - reader.inputs.begin()));
    if (!guard) return;
    const int64_t moves = nth(executor_.profile(), number).moves;
    const ValueId offsets = nth(graph_.op(reader.op).inputs, guard->offsets);
    moves_[{section, reader.recompute, offsets, guard->index}][to.value] += moves;
    bytes_ += moves * graph_.value(to.value).type.bytes();
  }

  const Graph& graph_;
  const Program& program_;
  const Executor& executor_;
  std::vector<int32_t> reader_;  // by value: the next instruction that reads it
  std::map<ExpertInPass, std::map<ValueId, int64_t>> moves_;
  int64_t bytes_ = 0;
};

bool has_experts(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [](const Operation& op) { return op.def->guard != nullptr; });
}

}  // namespace

std::optional<ExpertLoads> expert_loads(const Graph& graph, const Program& program, const Executor& executor,
                                        const ExpertLoads& before) {
  if (!has_experts(graph)) return std::nullopt;
  ExpertLoads result = LoadCounter(graph, program, executor).count();
  result.loads += before.loads;
  result.bytes += before.bytes;
  return result;
}

}  // namespace spillway
