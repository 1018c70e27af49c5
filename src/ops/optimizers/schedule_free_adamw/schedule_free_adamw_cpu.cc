#include "backend/kernel.h"
#include "ops/optimizers/schedule_free_adamw/numbers.h"

namespace spillway::ops {

void schedule_free_step_cpu(const KernelArgs& args) {
  using namespace schedule_free_step_op;
  *args.outputs[0].as<AverageState>() =
      next_average(average_constants(args.attributes), *args.inputs[kState].as<AverageState>(),
                   *args.inputs[kLearningRate].as<float>(), *args.inputs[kStep].as<int32_t>());
}

}  // namespace spillway::ops
