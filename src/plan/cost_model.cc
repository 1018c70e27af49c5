#include "plan/cost_model.h"

#include <algorithm>
#include <limits>

#include "graph/operation.h"

namespace spillway {
namespace {

double seconds_of(const Graph& graph, OpId id, const Machine& machine) {
  const Cost cost = cost_of(graph, id);
  const double memory = cost.bytes / machine.memory_bytes_per_second;
  if (!cost.matrix_product) return machine.operation_seconds + memory;
  const DType dtype = cost.in_f32 ? DType::kF32 : graph.value(graph.op(id).inputs[0]).type.dtype;
  return machine.operation_seconds + std::max(memory, cost.flops / machine.matrix_flops(dtype));
}

}  // namespace

CostModel::CostModel(const Graph& graph, const Machine& machine) : machine_(machine) {
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id)
    operation_seconds_.push_back(seconds_of(graph, id, machine));
}

double CostModel::transfer_seconds(Lane lane, int64_t bytes) const {
  const double rate = machine_.link_bytes_per_second[static_cast<size_t>(lane)];
  if (rate <= 0) return std::numeric_limits<double>::infinity();
  return machine_.operation_seconds + static_cast<double>(bytes) / rate;
}

}  // namespace spillway
