#include "runtime/operation_sample.h"

#include <algorithm>

#include "base/index.h"
#include "base/math.h"
#include "graph/operation.h"
#include "graph/repeat_by_block.h"
#include "plan/cost_model.h"
#include "runtime/stream_size.h"

namespace spillway {
namespace {

constexpr int64_t kPageBytes = 4096;

// Visits every operand that is present: visit(value, is_output, index).
template <typename Visit>
void visit_operands(const Operation& op, const Visit& visit) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != kNone) visit(op.inputs[i], false, i);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) visit(op.outputs[i], true, i);
}

std::vector<int32_t> places_of(const Graph& graph, const Operation& op) {
  std::vector<int32_t> places(op.outputs.size(), kNone);
  std::vector<bool> is_taken(op.inputs.size());
  for (const InPlace& pair : op.def->in_place) {
    const auto output = static_cast<size_t>(pair.output), input = static_cast<size_t>(pair.input);
    if (output >= op.outputs.size() || input >= op.inputs.size() || op.inputs[input] == kNone) continue;
    if (places[output] != kNone || is_taken[input]) continue;
    if (std::count(op.inputs.begin(), op.inputs.end(), op.inputs[input]) != 1) continue;
    if (graph.value(op.inputs[input]).type != graph.value(op.outputs[output]).type) continue;
    places[output] = pair.input;
    is_taken[input] = true;
  }
  return places;
}

}  // namespace

OperationSample::OperationSample(const Graph& graph, OpId op, int threads, DeviceKind kind)
    : graph_(&graph),
      op_(op),
      tokens_(graph.tokens()),
      places_taken_(places_of(graph, graph.op(op))),
      workspace_bytes_(workspace_of(graph, op, threads, kind)) {
  count_bytes();
}

bool OperationSample::fit(double seconds, const SampleLimits& limits) {
  constexpr double kSlack = 0.95;  // leaves room for rounding sizes up to whole pages
  if (has_tokens()) {
    const auto is_too_large = [&] { return scale_ * limits.seconds < seconds || bytes() > limits.bytes; };
    while (is_too_large() && cut(limits.sequence_len)) {
    }
  } else if (is_elementwise()) {
    const auto share_of_bytes = static_cast<double>(limits.bytes) / static_cast<double>(bytes());
    const double share = std::min({1.0, limits.seconds / seconds, kSlack * share_of_bytes});
    if (share == 1) return true;
    const int64_t all = largest_rows();
    rows_ = std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(all)));
    scale_ = static_cast<double>(all) / static_cast<double>(rows_);
    count_bytes();
  }
  return bytes() <= limits.bytes;
}

bool OperationSample::cut(int64_t sequence_len) {
  const int64_t fewer = smaller_stream(tokens_, std::min(sequence_len, graph_->tokens()));
  if (fewer == tokens_) return false;
  tokens_ = fewer;
  scale_ = 1 / work_share(*graph_, op_, fewer);
  count_bytes();
  return true;
}

bool OperationSample::has_tokens() const {
  bool result = false;
  visit_operands(operation(),
                 [&](ValueId id, bool, size_t) { result |= rows_with(*graph_, value(id).type.axis, tokens_) >= 0; });
  return result;
}

Shape OperationSample::shape_of(ValueId id) const {
  const ValueType& type = value(id).type;
  Shape shape = type.shape;
  if (const int64_t rows = rows_with(*graph_, type.axis, tokens_); rows >= 0) shape.set(0, rows);
  if (rows_ >= 0 && shape.elems() > 1) shape.set(0, rows_);
  return shape;
}

int64_t OperationSample::bytes_of(ValueId id) const {
  return align_up(shape_of(id).elems() * size_of(value(id).type.dtype), kPageBytes);
}

// Returns true if every operand but single numbers has one shape, so that a part of the rows costs a part of the time.
bool OperationSample::is_elementwise() const {
  const Shape* common = nullptr;
  bool equal = true;
  visit_operands(operation(), [&](ValueId id, bool, size_t) {
    const ValueType& type = value(id).type;
    if (type.shape.elems() == 1) return;
    equal = equal && !type.follows_axis() && (common == nullptr || *common == type.shape);
    common = &type.shape;
  });
  return equal && common != nullptr;
}

int64_t OperationSample::largest_rows() const {
  int64_t rows = 1;
  visit_operands(operation(), [&](ValueId id, bool, size_t) {
    const Shape& shape = value(id).type.shape;
    if (shape.rank() > 0) rows = std::max(rows, shape[0]);
  });
  return rows;
}

// Counts bytes. An input whose place an output takes is counted as a result alone.
void OperationSample::count_bytes() {
  constant_bytes_ = result_bytes_ = 0;
  visit_operands(operation(), [&](ValueId id, bool is_output, size_t i) {
    (is_output ? result_bytes_ : constant_bytes_) += bytes_of(id);
    if (is_output && places_taken_[i] != kNone) constant_bytes_ -= bytes_of(id);
  });
}

}  // namespace spillway
