#include "plan/bundles.h"

#include <algorithm>
#include <map>

#include "base/index.h"
#include "base/math.h"
#include "graph/experts.h"
#include "plan/choices.h"
#include "plan/offsets.h"

namespace spillway {
namespace {

// The inverse share of its group that a bundle takes at most.
constexpr int64_t kBundlesOfGroup = 16;
// The most trainable weights of a bundle: what runs ahead of their updates is the state of a few.
constexpr int64_t kMaxTrained = 8;

class ExpertJoiner {
 public:
  ExpertJoiner(const Graph& graph, const OwnFiles& own_files, const GraphFacts& facts)
      : graph_(graph),
        own_files_(own_files),
        group_bytes_(graph.groups.size(), 0),
        lead_(graph.values.size(), kNone),
        weight_(graph.values.size(), kNone),
        is_result_(graph.values.size(), 0) {
    result_.facts = facts;
    for (const ValueFacts& value : facts.values)
      if (value.given() && value.group != kNone) nth(group_bytes_, value.group) += value.bytes;
    for (const ValueId result : graph.results) nth(is_result_, result) = 1;
  }

  JoinedFacts run() {
    const auto ops = static_cast<OpId>(graph_.ops.size());
    for (OpId id = 0; id < ops; ++id)
      if (graph_.op(id).def->guard) join_weights(id);
    for (OpId id = ops; id-- > 0;) find_weights(graph_.op(id));
    for (OpId id = 0; id < ops; ++id) join_operation(id);
    if (result_.left_out > 0) replace_operands();
    return std::move(result_);
  }

 private:
  // The properties that operations on the weights of a bundle have in common: the bundle, the operation and
  // what it reads, bundles in place of their values.
  using Likeness = std::pair<const OpDef*, std::vector<int64_t>>;

  [[nodiscard]] ValueFacts& facts(ValueId id) { return nth(result_.facts.values, id); }
  [[nodiscard]] bool is_in_bundle(ValueId id) const { return id != kNone && nth(lead_, id) != kNone; }
  [[nodiscard]] ValueId lead_of(ValueId id) const { return is_in_bundle(id) ? nth(lead_, id) : id; }
  static int64_t padded(const ValueFacts& value) { return align_up(value.bytes, kArenaAlignment); }

  // Joins weights that no operation before this one reads.
  void join_weights(OpId id) {
    const std::vector<ValueId>& inputs = graph_.op(id).inputs;
    ValueId lead = kNone;
    for (int i = 0; i < std::ssize(inputs); ++i) {
      const ValueId input = nth(inputs, i);
      if (input == kNone || is_in_bundle(input) || !facts(input).given() || !guard_of(graph_, id, i)) {
        lead = kNone;
        continue;
      }
      if (lead != kNone && may_join(lead, input)) {
        join(lead, input);
      } else {
        lead = nth(lead_, input) = input;
      }
      if (facts(input).kind == ValueKind::kTrainableWeight) nth(weight_, input) = input;
    }
  }

  [[nodiscard]] bool may_join(ValueId lead, ValueId other) {
    const ValueFacts &one = facts(lead), &two = facts(other);
    const bool is_trained = one.kind == ValueKind::kTrainableWeight;
    if (!is_of_expert(graph_, lead) || one.group != two.group || own_files_.hold(lead) != own_files_.hold(other))
      return false;
    if (is_trained && one.parts >= kMaxTrained) return false;
    return (is_trained || one.kind == ValueKind::kFrozenWeight) &&
           (padded(one) + padded(two)) * kBundlesOfGroup <= nth(group_bytes_, one.group);
  }

  void join(ValueId lead, ValueId other) {
    ValueFacts &one = facts(lead), &two = facts(other);
    one.bytes = padded(one) + two.bytes;
    ++one.parts;
    two.bytes = two.parts = 0;
    nth(lead_, other) = lead;
    ++result_.left_out;
  }

  // Notes the weight whose gradients and state an operation reads and writes.
  void find_weights(const Operation& op) {
    const ValueId weight = weight_of(op);
    if (weight == kNone) return;
    for (const std::vector<ValueId>& operands : {op.inputs, op.outputs}) {
      for (const ValueId v : operands) {
        if (v == kNone || nth(weight_, v) != kNone) continue;
        const ValueKind kind = facts(v).kind;
        const bool is_of_weight = kind == ValueKind::kGradient || kind == ValueKind::kOptimizerState;
        if (is_of_weight && facts(v).block != kNone) nth(weight_, v) = weight;
      }
    }
  }

  // Returns the weight, in a bundle of several, on which or on whose gradient or state an operation works, if it is one
  // alone and the operation may be joined to others; else kNone.
  [[nodiscard]] ValueId weight_of(const Operation& op) {
    if (op.def->guard || op.def->collective || graph_.section_of(op).recomputable) return kNone;
    ValueId weight = kNone;
    for (const std::vector<ValueId>& operands : {op.inputs, op.outputs}) {
      for (const ValueId v : operands) {
        const ValueId one = v == kNone ? kNone : nth(weight_, v);
        if (one == kNone) continue;
        if (weight != kNone && weight != one) return kNone;
        weight = one;
      }
    }
    const auto is_result = [&](ValueId output) { return nth(is_result_, output) != 0; };
    if (weight == kNone || std::any_of(op.outputs.begin(), op.outputs.end(), is_result)) return kNone;
    return facts(lead_of(weight)).parts > 1 ? weight : kNone;
  }

  // Joins an operation to the first one that does the same with another weight of a bundle, if it is not itself the
  // first one.
  void join_operation(OpId id) {
    const Operation& op = graph_.op(id);
    const ValueId weight = weight_of(op);
    if (weight == kNone) return;
    const OpFacts& own = result_.facts.op(id);
    Likeness likeness{op.def, {own.section, own.block, lead_of(weight), std::ssize(op.outputs)}};
    for (const ValueId input : op.inputs) {
      const bool is_new_state = input != kNone && !is_in_bundle(input) && nth(weight_, input) != kNone;
      likeness.second.push_back(is_new_state ? -2 - facts(input).group : lead_of(input));
    }
    const OpId first = first_.try_emplace(std::move(likeness), id).first->second;
    const Operation& lead = graph_.op(first);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] != kNone && nth(weight_, op.inputs[i]) != kNone) place(lead.inputs[i], op.inputs[i]);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      nth(weight_, op.outputs[i]) = weight;
      place(lead.outputs[i], op.outputs[i]);
    }
    if (first != id) leave_out(first, id);
  }

  // Puts a value, unless it has one, into the bundle of another one, or begins a bundle with it.
  void place(ValueId first, ValueId value) {
    if (is_in_bundle(value)) return;
    if (first == value) {
      nth(lead_, value) = value;
    } else {
      join(lead_of(first), value);
    }
  }

  void leave_out(OpId first, OpId other) {
    OpFacts &one = nth(result_.facts.ops, first), &two = nth(result_.facts.ops, other);
    one.workspace_bytes = std::max(one.workspace_bytes, two.workspace_bytes);
    ++one.parts;
    two.parts = 0;
    ++result_.left_out;
    result_.joined_ops.emplace_back(first, other);
  }

  // Operations read the first of a bundle in place of all of it. What they read before it keeps its place.
  void replace_operands() {
    GraphFacts& facts = result_.facts;
    OperandLists<ValueId> operands;
    operands.reserve(facts.operands.size());
    std::vector<ValueId> inputs;
    for (OpFacts& op : facts.ops) {
      inputs.clear();
      for (const ValueId input : facts.inputs(op)) {
        const bool is_again = is_in_bundle(input) && !inputs.empty() && inputs.back() == lead_of(input);
        if (!is_again) inputs.push_back(lead_of(input));
      }
      op.operands = operands.add(inputs, facts.outputs(op));
    }
    facts.operands = std::move(operands);
    for (ValueFacts& value : facts.values) value.storage = lead_of(value.storage);
  }

  const Graph& graph_;
  const OwnFiles& own_files_;
  JoinedFacts result_;
  std::vector<int64_t> group_bytes_;
  std::vector<ValueId> lead_;    // by value: the first of its bundle; kNone for one that is in no bundle
  std::vector<ValueId> weight_;  // by value: the trainable weight that it is, or is made of or for
  Flags is_result_;              // by value
  std::map<Likeness, OpId> first_;
};

}  // namespace

JoinedFacts join_experts(const Graph& graph, const OwnFiles& own_files, const GraphFacts& facts) {
  return ExpertJoiner(graph, own_files, facts).run();
}

}  // namespace spillway
