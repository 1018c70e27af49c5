#include "plan/cost_model.h"

#include <algorithm>
#include <limits>

#include "base/index.h"
#include "graph/operation.h"
#include "plan/peer_seconds.h"
#include "plan/signature.h"

namespace spillway {
namespace {

// Returns the flop/s of an operation that is bound by its products. A rate of zero means unknown and is skipped.
double flops_of(const Graph& graph, OpId id, const Machine& machine, bool in_f32) {
  const DType dtype = graph.value(graph.op(id).inputs[0]).type.dtype;
  if (dtype == DType::kBF16) {
    const auto own = machine.operation_flops.find(graph.op(id).def->name);
    if (own != machine.operation_flops.end() && own->second > 0) return own->second;
  }
  return machine.matrix_flops(in_f32 ? DType::kF32 : dtype);
}

double seconds_by_rates(const Graph& graph, OpId id, const Machine& machine) {
  const Cost cost = cost_of(graph, id);
  const double memory = cost.bytes / machine.memory_bytes_per_second;
  if (!cost.matrix_product) return machine.operation_seconds + memory;
  return machine.operation_seconds + std::max(memory, cost.flops / flops_of(graph, id, machine, cost.in_f32));
}

Machine::OperationSeconds seconds_of(const Graph& graph, OpId id, const Machine& machine) {
  Machine::OperationSeconds seconds;
  if (!machine.operations.empty()) {
    const auto found = machine.operations.find(signature_of(graph, id));
    if (found != machine.operations.end()) seconds = found->second;
  }
  if (seconds.compute <= 0) seconds.compute = seconds_by_rates(graph, id, machine);
  if (seconds.host <= 0 && machine.host_bytes_per_second > 0) {
    seconds.host = machine.operation_seconds + cost_of(graph, id).bytes / machine.host_bytes_per_second;
  } else if (seconds.host <= 0) {
    seconds.host = seconds.compute;
  }
  return seconds;
}

}  // namespace

CostModel::CostModel(const Graph& graph, const Machine& machine) : machine_(machine) {
  sent_bytes_.resize(graph.ops.size());
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    if (graph.op(id).def->collective != nullptr) {
      const double seconds = peer_seconds(graph, id, machine);
      nth(sent_bytes_, id) = static_cast<int64_t>(cost_of(graph, id).sent_bytes);
      compute_seconds_.push_back(seconds);
      host_seconds_.push_back(seconds);
      continue;
    }
    const Machine::OperationSeconds seconds = seconds_of(graph, id, machine);
    compute_seconds_.push_back(seconds.compute);
    host_seconds_.push_back(seconds.host);
  }
}

void CostModel::join(OpId op, OpId other) {
  nth(compute_seconds_, op) += nth(compute_seconds_, other);
  nth(host_seconds_, op) += nth(host_seconds_, other);
}

double CostModel::transfer_seconds(Lane lane, int64_t bytes, int64_t count) const {
  const double rate = nth(machine_.link_bytes_per_second, lane);
  if (rate <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(count) * machine_.operation_seconds + static_cast<double>(bytes) / rate;
}

}  // namespace spillway
