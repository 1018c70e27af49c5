#include "backend/kernel.h"
#include "base/parallel.h"
#include "ops/ema/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int64_t kGrainElems = 1 << 14;

float number(float value) { return value; }
float number(bf16 value) { return to_float(value); }

}  // namespace

void ema_cpu(const KernelArgs& args) {
  using namespace ema_op;
  const TensorView &average = args.inputs[kAverage], &weight = args.inputs[kWeight], &out = args.outputs[0];
  const bool is_copy = *args.inputs[kStep].as<int32_t>() <= args.attributes.integer("start_step");
  const auto decay = static_cast<float>(args.attributes.real("decay"));
  const int64_t first = args.attributes.integer("first");
  with_real(weight.dtype, [&]<typename W>(W*) {
    args.threads->parallel_for(out.elems(), kGrainElems, [&](int64_t begin, int64_t end, int) {
      const W* const from = weight.as<W>() + first;
      const float* const before = average.as<float>();
      float* const to = out.as<float>();
      for (int64_t i = begin; i < end; ++i)
        to[i] = is_copy ? number(from[i]) : decay * before[i] + (1 - decay) * number(from[i]);
    });
  });
}

}  // namespace spillway::ops
