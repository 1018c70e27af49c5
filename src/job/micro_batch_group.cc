#include "job/micro_batch_group.h"

#include <set>
#include <vector>

#include "base/error.h"

namespace spillway::train {
namespace {

// Checks that the host fills all that a micro-batch of a group reads of its own.
void check_filled(const Graph& graph, const MicroBatchValues& first, const RepeatedValues& repeated) {
  const std::vector<ValueId> inputs = first.inputs();
  const std::set<ValueId> filled(inputs.begin(), inputs.end());
  for (ValueId id = 0; id < std::ssize(graph.values); ++id) {
    const Value& value = graph.value(id);
    const bool is_own = value.producer == kNone && value.kind == ValueKind::kBatch && repeated.has(id);
    SPILLWAY_CHECK(!is_own || filled.contains(id), "{} is filled for the first micro-batch alone", value.name);
  }
}

}  // namespace

RepeatedMicroBatches repeat_micro_batches(Graph& graph, const MicroBatchValues& first, int64_t count,
                                          ZerosFunction zeros) {
  const auto axes = std::ssize(graph.axes);
  const size_t results = graph.results.size();
  RepeatedMicroBatches result{.group = {first}, .values = repeat_by_block(graph, count, zeros)};
  for (int64_t number = 1; number < count; ++number) {
    const auto axis = [&](AxisId one) { return static_cast<AxisId>(static_cast<int64_t>(one) + number * axes); };
    const auto repeated = [&](ValueId value) { return result.values.of(value, number); };
    MicroBatchValues& values = result.group.emplace_back(first);
    // A column that nothing reads, as positions where nothing is rotated, is there once: with rows of the first one.
    std::erase_if(values.columns, [&](const BatchColumn& column) { return !result.values.has(column.value); });
    for (BatchColumn& column : values.columns) column.value = repeated(column.value);
    values.scale = repeated(first.scale);
    values.router_loss_weight = repeated(first.router_loss_weight);
    values.dropout_seed = repeated(first.dropout_seed);
    values.fake_quantises = repeated(first.fake_quantises);
    values.loss_result += static_cast<size_t>(number) * results;
    values.tokens = axis(first.tokens);
    values.rows = axis(first.rows);
  }
  check_filled(graph, first, result.values);
  return result;
}

}  // namespace spillway::train
