#include "graph/verify_group.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

// A value depends on the inputs of one micro-batch, and has its number; or it has one of these.
constexpr int64_t kNoMicroBatch = -1, kSum = -2;

class GroupVerifier {
 public:
  GroupVerifier(const Graph& graph, std::span<const std::vector<ValueId>> inputs)
      : graph_(graph),
        count_(std::ssize(inputs)),
        of_(graph.values.size(), kNoMicroBatch),
        newest_(graph.values.size(), kNoMicroBatch) {
    for (int64_t number = 0; number < count_; ++number) {
      for (const ValueId id : nth(inputs, number)) {
        if (nth(of_, id) != kNoMicroBatch) shared_.insert(id);
        nth(of_, id) = number;
      }
    }
  }

  std::vector<std::string> run() {
    for (ValueId id = 0; id < std::ssize(graph_.values); ++id)
      if (!shared_.contains(id)) check_axis(id);
    for (OpId id = 0; id < std::ssize(graph_.ops); ++id) check_operation(id);
    return std::move(violations_);
  }

 private:
  void check_operation(OpId id) {
    const Operation& op = graph_.op(id);
    ValueId own = kNone, sum = kNone;  // an input of a micro-batch, and a sum or what follows from one
    for (const ValueId input : op.inputs) {
      if (input == kNone || nth(of_, input) == kNoMicroBatch) continue;
      if (shared_.contains(input)) report(id, input, input);
      const bool is_sum = nth(of_, input) == kSum || adds_to(op, input);
      ValueId& known = is_sum ? sum : own;
      if (known != kNone && !is_sum && nth(of_, known) != nth(of_, input)) report(id, known, input);
      known = input;
    }
    if (own != kNone && sum != kNone && (!adds_to(op, sum) || nth(of_, own) != nth(newest_, sum) + 1))
      report(id, own, sum);
    for (const ValueId output : op.outputs) {
      const bool is_sum = sum != kNone && (own == kNone || graph_.value(output).kind == ValueKind::kGradient);
      nth(of_, output) = is_sum ? kSum : own != kNone ? nth(of_, own) : kNoMicroBatch;
      nth(newest_, output) = own != kNone ? nth(of_, own) : kNoMicroBatch;
      check_axis(output);
    }
  }

  // Returns true if the value is a gradient, and an output of the operation is one of its type: the operation may add
  // to it.
  [[nodiscard]] bool adds_to(const Operation& op, ValueId value) const {
    const Value& sum = graph_.value(value);
    return sum.kind == ValueKind::kGradient && std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
             return graph_.value(output).kind == ValueKind::kGradient && graph_.value(output).type == sum.type;
           });
  }

  void check_axis(ValueId id) {
    const Value& value = graph_.value(id);
    const int64_t of = nth(of_, id), axes = std::ssize(graph_.axes) / count_;
    if (of < 0 || !value.type.follows_axis() || static_cast<int64_t>(value.type.axis) / axes == of) return;
    violations_.push_back(fmt::format("{} of micro-batch {} follows an axis of another", value.name, of));
  }

  void report(OpId id, ValueId one, ValueId other) {
    violations_.push_back(
        fmt::format("operation {} ({}) reads {} and {}; two micro-batches meet in sums of gradients "
                    "alone, in their order",
                    id, graph_.op(id).def->name, graph_.value(one).name, graph_.value(other).name));
  }

  const Graph& graph_;
  const int64_t count_;
  std::set<ValueId> shared_;     // inputs that several micro-batches name; nothing may read them
  std::vector<int64_t> of_;      // by value
  std::vector<int64_t> newest_;  // by value: of a sum, the micro-batch that was added last
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> verify_group(const Graph& graph, std::span<const std::vector<ValueId>> inputs) {
  return GroupVerifier(graph, inputs).run();
}

}  // namespace spillway
