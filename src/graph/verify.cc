#include "graph/verify.h"

#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/index.h"
#include "graph/operation.h"
#include "graph/recompute.h"

namespace spillway {
namespace {

class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    if (!check_ids()) return std::move(violations_);  // the rest would read out of range, or never end
    check_names();
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      check_operation(id);
      check_parts(id);
    }
    check_producers();
    check_updates();
    return std::move(violations_);
  }

 private:
  template <typename... Args>
  void report(fmt::format_string<Args...> text, Args&&... args) {
    violations_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] bool is_value(ValueId id) const { return id >= 0 && id < static_cast<ValueId>(graph_.values.size()); }

  bool check_ids() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Operation& op = graph_.ops[i];
      if (!op.def) report("operation {} has no description", i);
      for (const ValueId id : op.inputs) {
        if (id != kNone && !is_value(id)) report("operation {} reads value {}, which does not exist", i, id);
      }
      for (const ValueId id : op.outputs) {
        if (!is_value(id)) report("operation {} writes value {}, which does not exist", i, id);
      }
      if (op.block != kNone && (op.block < 0 || op.block >= static_cast<BlockId>(graph_.blocks.size()))) {
        report("operation {} is in block {}, which does not exist", i, op.block);
      }
      if (op.section < 0 || op.section >= static_cast<SectionId>(graph_.sections.size()))
        report("operation {} is in section {}, which does not exist", i, op.section);
    }
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Value& value = graph_.value(id);
      if (value.updates != kNone && !is_value(value.updates)) {
        report("{} updates value {}, which does not exist", value.name, value.updates);
      } else if (value.updates >= id) {  // a chain of updates has an end
        report("{} updates a later value", value.name);
      }
      if (value.producer != kNone && (value.producer < 0 || value.producer >= static_cast<OpId>(graph_.ops.size()))) {
        report("{} is produced by operation {}, which does not exist", value.name, value.producer);
      }
    }
    for (const ValueId id : graph_.results) {
      if (!is_value(id)) report("result {} does not exist", id);
    }
    return violations_.empty();
  }

  void check_names() {
    std::unordered_set<std::string> names;
    for (const Value& value : graph_.values) {
      if (!names.insert(value.name).second) report("two values are called {}", value.name);
      check_axis(value);
    }
  }

  void check_axis(const Value& value) {
    const ValueType& type = value.type;
    if (!type.follows_axis()) return;
    if (static_cast<size_t>(type.axis) >= graph_.axes.size()) {
      report("{} follows axis {}, which does not exist", value.name, static_cast<int>(type.axis));
    } else if (const Axis& axis = graph_.axis(type.axis); type.shape.rank() == 0 || type.shape[0] != axis.capacity) {
      report("{} follows {}, but {} has not {} rows", value.name, axis.name, to_string(type), axis.capacity);
    }
  }

  void check_operation(OpId id) {
    const Operation& op = graph_.op(id);
    if (id > 0 && op.section < graph_.op(id - 1).section)
      report("operation {} ({}) goes back to an earlier section", id, op.def->name);
    std::vector<const ValueType*> types;
    for (const ValueId input : op.inputs) {
      types.push_back(input == kNone ? nullptr : &graph_.value(input).type);
      if (input == kNone) continue;
      if (graph_.value(input).producer >= id)
        report("operation {} ({}) reads {} before it is written", id, op.def->name, graph_.value(input).name);
    }
    try {
      const std::vector<ValueType> inferred = op.def->infer(types, op.attributes);
      if (inferred.size() != op.outputs.size()) {
        report("operation {} ({}) has {} outputs instead of {}", id, op.def->name, op.outputs.size(), inferred.size());
        return;
      }
      for (size_t i = 0; i < inferred.size(); ++i) {
        const Value& output = graph_.value(op.outputs[i]);
        if (output.type != inferred[i])
          report("{} is {} instead of {}", output.name, to_string(output.type), to_string(inferred[i]));
      }
    } catch (const InputError& error) {
      report("operation {}: {}", id, error.what());
    }
  }

  // Checks that no operation takes a part for the whole.
  void check_parts(OpId id) {
    const Operation& op = graph_.op(id);
    if (!may_run_again(*op.def) && graph_.section_of(op).recomputable)
      report("operation {} ({}) is a collective in a section that may run again, or alone", id, op.def->name);
    bool any_part = false, any_whole = false, any_number = false;
    for (const ValueId input : op.inputs) {
      if (input == kNone) continue;
      const Value& value = graph_.value(input);
      (value.split ? any_part : value.type.shape.elems() > 1 ? any_whole : any_number) = true;
    }
    const bool is_alone = op.inputs.size() == 1;  // beside others, parts are made from or put into a whole value
    const bool fits = op.def->held == Held::kAsInputs ? !any_part || !any_whole
                      : op.def->held == Held::kOwn    ? !any_part
                      : op.def->held == Held::kPart   ? any_part != is_alone && (any_whole || any_number)
                                                      : any_part && (any_whole || any_number) != is_alone;
    if (!fits) report("operation {} ({}) takes parts for whole values, or the other way round", id, op.def->name);
    for (const ValueId output : op.outputs) {
      const Value& value = graph_.value(output);
      const bool is_part = op.def->held == Held::kAsInputs ? any_part : op.def->held == Held::kPart;
      if (value.split != is_part) report("{} {} a part", value.name, is_part ? "is not marked as" : "is marked as");
    }
  }

  void check_producers() {
    std::unordered_map<ValueId, OpId> writers;
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      for (const ValueId output : graph_.op(id).outputs) {
        if (!writers.emplace(output, id).second) report("{} is written twice", graph_.value(output).name);
        if (graph_.value(output).producer != id)
          report("{} does not name operation {} as its producer", graph_.value(output).name, id);
      }
    }
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Value& value = graph_.value(id);
      if (value.producer != kNone && !writers.count(id))
        report("{} names a producer that does not write it", value.name);
    }
    for (const ValueId id : graph_.results) {
      if (!writers.count(id)) report("{} is a result, but nothing produces it", graph_.value(id).name);
      if (graph_.value(id).split) report("{} is a result, but a part", graph_.value(id).name);
    }
  }

  void check_updates() {
    std::unordered_map<ValueId, ValueId> next;
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Value& value = graph_.value(id);
      if (value.updates == kNone) continue;
      if (value.producer == kNone) report("{} updates a value, but nothing produces it", value.name);
      if (graph_.persistent_root(id) == kNone)
        report("{} updates {}, which is not persistent", value.name, graph_.value(value.updates).name);
      if (graph_.value(value.updates).type != value.type) report("{} updates a value of another type", value.name);
      if (graph_.value(value.updates).split != value.split)
        report("{} and what it updates are not both parts, or both whole", value.name);
      if (!next.emplace(value.updates, id).second) report("{} is updated twice", graph_.value(value.updates).name);
    }
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      for (const ValueId input : graph_.op(id).inputs) {
        const auto found = input == kNone ? next.end() : next.find(input);
        if (found != next.end() && graph_.value(found->second).producer < id) {
          report("operation {} ({}) reads {} after its update", id, graph_.op(id).def->name, graph_.value(input).name);
        }
      }
    }
    const std::vector<OpId> last_reads = last_backward_reads(graph_, static_cast<OpId>(graph_.ops.size()));
    for (const auto& [value, version] : next) {
      const OpId last = nth(last_reads, value);
      if (graph_.value(version).producer < last) {
        report("operation {} ({}) may need {} for recomputation after its update", last, graph_.op(last).def->name,
               graph_.value(value).name);
      }
    }
  }

  const Graph& graph_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph) { return GraphVerifier(graph).run(); }

}  // namespace spillway
