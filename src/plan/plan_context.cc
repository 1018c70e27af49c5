#include "plan/plan_context.h"

namespace spillway {

const PlanContext::Program* PlanContext::largest_beside(const Plan& plan, Tier tier) const {
  const Program* largest = nullptr;
  int64_t most = nth(plan.peaks, tier).bytes;
  for (const Program& program : beside) {
    if (nth(program.bytes, tier) <= most) continue;
    largest = &program;
    most = nth(program.bytes, tier);
  }
  return largest;
}

}  // namespace spillway
