#include <algorithm>
#include <cmath>
#include <span>

#include "backend/kernel.h"
#include "base/math.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/draw_token/operands.h"
#include "ops/draw_token/token_distribution.h"

namespace spillway::ops {
namespace {

struct Row {
  std::span<const float> logits;
  std::span<const int32_t> barred;
  float inverse_temperature, uniform, logprob_inverse_temperature;
};

struct Drawn {
  int32_t id = 0;
  float logprob = 0;
};

// REQUIRES: the row is drawn.
Drawn draw(const Row& row, std::span<double> sums) {
  Drawn drawn;
  const float logprob_factor = row.logprob_inverse_temperature;
  const bool is_barred = std::any_of(row.barred.begin(), row.barred.end(), [](int32_t id) { return id >= 0; });
  const OpenLogits open = is_barred ? OpenLogits(row.logits, row.barred) : OpenLogits(row.logits);
  if (std::isinf(row.inverse_temperature)) {
    drawn.id = open.likeliest();
  } else {
    const TokenDistribution distribution(open, row.inverse_temperature, sums);
    drawn.id = distribution.draw(row.uniform);
    // Often both distributions are the same.
    if (logprob_factor == row.inverse_temperature)
      return {drawn.id, static_cast<float>(distribution.log_probability(drawn.id))};
  }
  if (logprob_factor > 0) {
    const TokenDistribution distribution(open, logprob_factor, sums);
    drawn.logprob = static_cast<float>(distribution.log_probability(drawn.id));
  }
  return drawn;
}

}  // namespace

void draw_token_cpu(const KernelArgs& args) {
  using namespace draw_token_op;
  const TensorView &logits = args.inputs[kLogits], &barred = args.inputs[kBarred];
  const int64_t vocabulary = logits.shape[1], barred_ids = barred.shape[1];
  const int64_t blocks = div_ceil(vocabulary, kTokenBlock);
  args.threads->parallel_for(logits.shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
    auto* const sums = reinterpret_cast<double*>(args.workspace) + thread * blocks;
    for (int64_t i = begin; i < end; ++i) {
      const auto number = [&](int input) { return args.inputs[input].as<float>()[i]; };
      const Row row{.logits = span_of(logits.as<float>() + i * vocabulary, vocabulary),
                    .barred = span_of(barred.as<int32_t>() + i * barred_ids, barred_ids),
                    .inverse_temperature = number(kInverseTemperature),
                    .uniform = number(kUniform),
                    .logprob_inverse_temperature = number(kLogprobInverseTemperature)};
      Drawn drawn;
      if (row.inverse_temperature >= 0) {
        drawn = draw(row, span_of(sums, blocks));
        if (const float logit = row.logits[static_cast<size_t>(drawn.id)]; std::isnan(logit)) drawn.logprob = logit;
      }
      args.outputs[kIds].as<int32_t>()[i] = drawn.id;
      args.outputs[kLogprobs].as<float>()[i] = drawn.logprob;
    }
  });
}

}  // namespace spillway::ops
