#include "plan/lead.h"

#include "base/index.h"

namespace spillway {

std::vector<double> execution_starts(const GraphFacts& facts, const Placement& placement, const CostModel& costs,
                                     const Sequence& sequence, int32_t begin, int32_t end) {
  std::vector<double> starts = {0};
  starts.reserve(static_cast<size_t>(end - begin) + 1);
  for (int32_t i = begin; i < end; ++i) {
    const OpId op = nth(sequence.executions, i).op;
    const Lane lane = lane_of(facts.op(op), nth(placement.sites, op));
    starts.push_back(starts.back() + (lane == Lane::kPeer ? 0 : costs.operation_seconds(op, lane)));
  }
  return starts;
}

}  // namespace spillway
