#include "graph/repeat_by_block.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "graph/experts.h"
#include "graph/operation.h"

namespace spillway {
namespace {

class Repeater {
 public:
  Repeater(Graph& graph, int64_t count, ZerosFunction zeros)
      : graph_(graph),
        count_(count),
        zeros_(zeros),
        axes_(std::ssize(graph.axes)),
        sums_(graph.values.size(), kNone),
        newest_(graph.values.size(), kNone),
        repeated_(count, graph.values.size()) {}

  RepeatedValues run() {
    turn_early();
    find_updates();
    find_shared();
    for (int64_t number = 1; number < count_; ++number)
      for (int64_t axis = 0; axis < axes_; ++axis) graph_.axes.push_back(axis_of(axis, number));
    const std::vector<Operation> first = std::exchange(graph_.ops, {});
    graph_.ops.reserve(first.size() * static_cast<size_t>(count_));
    for (auto begin = first.begin(); begin != first.end();) {
      const auto end = end_of_run(begin, first.end());
      for (int64_t number = 0; number < count_; ++number) {
        for (auto op = begin; op != end; ++op) {
          if (number > 0 && nth(is_shared_, op - first.begin()) != 0) continue;
          if (zeros_ != nullptr && number == 0) begin_sums(*op);
          append(*op, number);
        }
      }
      begin = end;
    }
    if (zeros_ != nullptr) clear_groups();
    const std::vector<ValueId> results = graph_.results;
    for (int64_t number = 1; number < count_; ++number)
      for (const ValueId result : results) graph_.results.push_back(repeated_.of(result, number));
    return std::move(repeated_);
  }

 private:
  // Returns an axis of the first micro-batch for another one.
  [[nodiscard]] Axis axis_of(int64_t first, int64_t number) const {
    Axis axis = nth(graph_.axes, first);
    axis.of = repeated(axis.of, number);
    return axis;
  }
  [[nodiscard]] AxisId repeated(AxisId axis, int64_t number) const {
    return axis == kNoAxis ? axis : static_cast<AxisId>(static_cast<int64_t>(axis) + number * axes_);
  }

  // Moves the operations outside blocks that the backward section begins with to the end of the forward section, where
  // they follow those of their own micro-batch: the gradient of the head, as large as the vocabulary is, and in f32, is
  // added to its sum before the next micro-batch makes its own.
  void turn_early() {
    const auto is_of_backward = [&](const Operation& op) {
      return op.section > 0 && !graph_.section_of(op).recomputable && nth(graph_.sections, op.section - 1).recomputable;
    };
    const auto stays = [&](const Operation& op) {
      return !is_of_backward(op) || op.block != kNone || !may_run_again(*op.def);
    };
    const auto begin = std::find_if(graph_.ops.begin(), graph_.ops.end(), is_of_backward);
    const auto end = std::find_if(begin, graph_.ops.end(), stays);
    if (end == graph_.ops.end() || !is_of_backward(*end)) return;  // nothing would remain of the section
    std::for_each(begin, end, [](Operation& op) { --op.section; });
  }

  // Returns the end of the operations that run for one micro-batch before they run for the next one.
  [[nodiscard]] std::vector<Operation>::const_iterator end_of_run(std::vector<Operation>::const_iterator begin,
                                                                  std::vector<Operation>::const_iterator end) const {
    // Experts that come for an operation serve all micro-batches before the next ones come.
    const auto takes_experts = [&](const Operation& op) { return first_expert(graph_, op) != kNone; };
    if (takes_experts(*begin)) return begin + 1;
    return std::find_if(begin, end, [&](const Operation& op) {
      return op.section != begin->section || op.block != begin->block || takes_experts(op);
    });
  }

  // Notes the persistent values that operations update.
  void find_updates() {
    for (const Section& section : graph_.sections)
      SPILLWAY_CHECK(section.repeats == Repeats::kMicroBatch, "{} does not repeat", section.name);
    std::vector<OpId> writers(graph_.values.size(), kNone);
    for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
      const Value& value = graph_.value(id);
      if (value.updates == kNone) continue;
      SPILLWAY_CHECK(graph_.is_persistent(value.updates), "{} is updated twice", graph_.value(value.updates).name);
      nth(sums_, id) = nth(newest_, value.updates) = value.updates;
      nth(writers, value.updates) = value.producer;
    }
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      for (const ValueId input : graph_.op(id).inputs) {
        const OpId writer = input == kNone ? kNone : nth(writers, input);
        SPILLWAY_CHECK(writer == kNone || writer == id, "{} passes from one micro-batch to the next, and {} reads it",
                       graph_.value(input).name, graph_.op(id).def->name);
      }
    }
  }

  // Finds the operations that read nothing of a micro-batch: what they make of weights serves all.
  void find_shared() {
    std::vector<char> is_own(graph_.values.size(), 0);  // to a micro-batch
    for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
      const Value& value = graph_.value(id);
      nth(is_own, id) = value.producer == kNone && (!graph_.is_persistent(id) || nth(newest_, id) != kNone);
    }
    for (const ValueId result : graph_.results) nth(is_own, result) = 1;
    for (const Operation& op : graph_.ops) {
      const auto is_of_one = [&](ValueId value) {
        return value != kNone && (nth(is_own, value) != 0 || graph_.value(value).type.follows_axis());
      };
      const bool is_shared = op.attributes.integer_or(kAxisAttribute, kNone) == kNone &&
                             std::none_of(op.inputs.begin(), op.inputs.end(), is_of_one) &&
                             std::none_of(op.outputs.begin(), op.outputs.end(), is_of_one);
      is_shared_.push_back(static_cast<char>(is_shared));
      for (const ValueId output : op.outputs) nth(is_own, output) |= static_cast<char>(!is_shared);
    }
  }

  // Appends an operation of the first micro-batch for another one, or for itself.
  void append(const Operation& first, int64_t number) {
    Operation op = first;
    const auto id = static_cast<OpId>(graph_.ops.size());
    for (ValueId& input : op.inputs)
      if (input != kNone) input = input_of(input, number);
    for (ValueId& output : op.outputs) output = output_of(output, number, id);
    if (const int64_t axis = op.attributes.integer_or(kAxisAttribute, kNone); axis != kNone)
      (void)op.attributes.set(kAxisAttribute, axis + number * axes_);
    graph_.ops.push_back(std::move(op));
  }

  // Appends zeros for each sum that the operation reads; they take the place of the persistent value.
  void begin_sums(const Operation& reader) {
    for (const ValueId input : reader.inputs) {
      if (input == kNone || nth(newest_, input) == kNone) continue;
      Operation op = zeros_(graph_.value(input).type);
      op.outputs = {input};
      op.section = reader.section;
      op.block = reader.block;
      graph_.value(input).producer = static_cast<OpId>(graph_.ops.size());
      graph_.ops.push_back(std::move(op));
    }
  }

  // Takes all versions but the last out of the group of gradients: they do not leave the block that adds to them.
  void clear_groups() {
    for (ValueId id = 0; id < std::ssize(sums_); ++id) {
      if (nth(sums_, id) == kNone) continue;
      graph_.value(nth(sums_, id)).group = kNone;
      for (int64_t number = 0; number + 1 < count_; ++number) graph_.value(repeated_.of(id, number)).group = kNone;
    }
  }

  [[nodiscard]] ValueId input_of(ValueId value, int64_t number) {
    if (nth(newest_, value) != kNone) return nth(newest_, value);
    if (graph_.is_persistent(value)) return value;
    const ValueId known = repeated_.of(value, number);
    const bool is_batch_of_first = graph_.value(value).producer == kNone && known == value;
    return number > 0 && is_batch_of_first ? add(value, number) : known;
  }

  [[nodiscard]] ValueId output_of(ValueId value, int64_t number, OpId producer) {
    const ValueId output = number > 0 ? add(value, number) : value;
    Value& added = graph_.value(output);
    added.producer = producer;
    const ValueId sum = nth(sums_, value);
    if (sum == kNone) return output;
    const ValueId before = std::exchange(nth(newest_, sum), output);
    added.updates = zeros_ != nullptr ? kNone : before;
    return output;
  }

  ValueId add(ValueId value, int64_t number) {
    Value copy = graph_.value(value);
    copy.name += fmt::format("@{}", number);
    copy.type.axis = repeated(copy.type.axis, number);
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(std::move(copy));
    repeated_.set(value, number, id);
    return id;
  }

  Graph& graph_;
  const int64_t count_;
  const ZerosFunction zeros_;
  const int64_t axes_;
  // By value of the first micro-batch: the persistent value that it updates; and of such a value, the newest version.
  std::vector<ValueId> sums_, newest_;
  std::vector<char> is_shared_;  // by operation of the first micro-batch
  RepeatedValues repeated_;
};

}  // namespace

RepeatedValues::RepeatedValues(int64_t count, size_t values)
    : by_number_(make_vector(count - 1, std::vector<ValueId>(values, kNone))) {}

ValueId RepeatedValues::of(ValueId value, int64_t number) const {
  if (value == kNone || number == 0) return value;
  const ValueId repeated = nth(nth(by_number_, number - 1), value);
  return repeated == kNone ? value : repeated;
}

bool RepeatedValues::has(ValueId value) const {
  return !by_number_.empty() && value < std::ssize(by_number_.front()) && of(value, 1) != value;
}

void RepeatedValues::set(ValueId value, int64_t number, ValueId repeated) {
  nth(nth(by_number_, number - 1), value) = repeated;
}

RepeatedValues repeat_by_block(Graph& graph, int64_t count, ZerosFunction zeros) {
  return Repeater(graph, count, zeros).run();
}

AxisId axis_of_first(const Graph& graph, AxisId axis) {
  if (axis == kNoAxis) return axis;
  const std::string& name = graph.axis(axis).name;
  const auto first =
      std::find_if(graph.axes.begin(), graph.axes.end(), [&](const Axis& one) { return one.name == name; });
  return static_cast<AxisId>(first - graph.axes.begin());
}

}  // namespace spillway
