#include "ops/optimizers/muon/muon.h"

#include <algorithm>
#include <cmath>

#include "ops/check.h"
#include "ops/matmul/matmul.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/muon/formula-inl.h"
#include "ops/optimizers/muon/numbers.h"
#include "ops/optional_kernel.h"
#include "ops/squared_norm/squared_norm.h"

namespace spillway::ops {

void muon_momentum_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void muon_momentum_cuda(const KernelArgs& args);
void muon_normalise_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void muon_normalise_cuda(const KernelArgs& args);

namespace muon_op {
namespace {

// Defaults are those of axolotl, the one trainer whose configs name this optimizer. torch's are "original" rates
// (match_rms_adamw 0).
constexpr OptimizerOption kMomentum = mean_option("momentum", 0.95), kNesterov{"nesterov", 1, {}, 0, 1},
                          kSteps{"ns_steps", 5, {}, 1, 99}, kMatchAdamw{"match_rms_adamw", 1, {}, 0, 1},
                          kBeta1 = mean_option("beta1", 0.95, "adam_beta1"),
                          kBeta2 = mean_option("beta2", 0.95, "adam_beta2"), kEps{"eps", 1e-8, "adam_epsilon"};
constexpr OptimizerOption kOptions[] = {kMomentum, kNesterov, kSteps, kMatchAdamw, kBeta1, kBeta2, kEps, kWeightDecay};

// The coefficients of the quintic that is applied to singular values: a x + b x^3 + c x^5.
constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315;

std::string_view conflict(const OptimizerOptions& options) {
  const double steps = options.real(kSteps.name);
  return steps == std::floor(steps) ? "" : "a whole number of ns_steps";
}

bool is_matrix_of_layer(const TrainedTensor& weight) { return weight.in_block && weight.shape.rank() == 2; }

StateSchema states(const OptimizerOptions& options, const TrainedTensor& weight) {
  if (!is_matrix_of_layer(weight)) return kAdamw.states(options, weight);
  StateSchema schema{.slice_unit = 0};
  schema.add("momentum_buffer");
  return schema;
}

// Returns outputs buffer, bf16 direction.
std::vector<ValueType> infer_momentum(TypeList inputs, const Attributes&) {
  using namespace muon_momentum_op;
  const ValueType &gradient = *inputs[kGradient], buffer{DType::kF32, gradient.shape};
  expect_real("muon_momentum", "gradient", gradient);
  if (inputs[kClip]) expect_scalar("muon_momentum", "clip", *inputs[kClip], DType::kF32);
  expect_same("muon_momentum", "momentum_buffer", *inputs[kBuffer], buffer);
  return {buffer, {DType::kBF16, gradient.shape}};
}

const OpDef kNextMomentum{.name = "muon_momentum",
                          .infer = infer_momentum,
                          .cost = memory_cost,
                          .in_place = {{0, muon_momentum_op::kBuffer}},
                          .cpu = muon_momentum_cpu,
                          .cuda = muon_momentum_cuda};

// Maps x, its squared norm -> x over its norm.
std::vector<ValueType> infer_normalise(TypeList inputs, const Attributes&) {
  expect_same("muon_normalise", "x", *inputs[0], {DType::kBF16, inputs[0]->shape});
  expect_scalar("muon_normalise", "the squared norm", *inputs[1], DType::kF32);
  return {*inputs[0]};
}

const OpDef kNormalise{.name = "muon_normalise",
                       .infer = infer_normalise,
                       .cost = memory_cost,
                       .in_place = {{0, 0}},
                       .cpu = muon_normalise_cpu,
                       .cuda = muon_normalise_cuda};

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return infer_update("muon", {}, inputs, attributes);
}

const OpDef kUpdate{.name = "muon",
                    .infer = infer,
                    .cost = slice_cost,
                    .in_place = update_in_place(0),
                    .cpu = muon_cpu,
                    .cuda = muon_cuda};

// Appends steps of X = a X + (b A + c A A) X with A = X X', which is taken over the shorter side. With X = a^i Y and E
// = b / a A, step i is Y = Y + (E + c a / b^2 E E) Y: three products with their addends. Returns Y; X is a^steps times
// that.
ValueId near_orthogonal(Builder& builder, ValueId y, int64_t steps) {
  const Shape& shape = builder.type(y).shape;
  const bool tall = shape[0] > shape[1];
  for (int64_t i = 0; i < steps; ++i) {
    const double scale = std::pow(kA, static_cast<double>(2 * i));
    const ValueId e = matmul(builder, y, y, {.transpose_a = tall, .transpose_b = !tall, .alpha = kB / kA * scale});
    const ValueId d = matmul(builder, e, e, {.alpha = kC * kA / (kB * kB), .addend = e});
    y = tall ? matmul(builder, y, d, {.addend = y}) : matmul(builder, d, y, {.addend = y});
  }
  return y;
}

// Returns the factor of a matrix' learning rate, as in torch.optim.Muon's adjust_lr_fn: "original" keeps the norm of
// the update's effect on outputs, "match_rms_adamw" the root mean square of AdamW's updates.
double rate_factor(const Shape& shape, bool matches_adamw) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  return matches_adamw ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
}

ValueId update_matrix(Builder& builder, const UpdateOperands& o, const OptimizerOptions& options) {
  const auto steps = static_cast<int64_t>(options.real(kSteps.name));
  const std::vector<ValueId> moved =
      builder.append(kNextMomentum, {o.gradient, o.clip, o.states[0]},
                     {{kMomentum.name, options.real(kMomentum.name)}, {kNesterov.name, options.real(kNesterov.name)}});
  builder.update(o.states[0], moved[0]);
  const ValueId x = builder.append_one(kNormalise, {moved[1], squared_norm(builder, moved[1])});
  const Shape shape = builder.type(o.weight).shape;
  const double factor = rate_factor(shape, options.real(kMatchAdamw.name) != 0);
  return append_update(builder, kUpdate,
                       {.weight = o.weight,
                        .master = o.master,
                        .gradient = near_orthogonal(builder, x, steps),
                        .learning_rate = o.learning_rate},
                       {{"factor", factor * std::pow(kA, static_cast<double>(steps))},
                        {kWeightDecay.name, options.real(kWeightDecay.name)}});
}

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  if (is_matrix_of_layer(trained_tensor(builder, operands.weight))) return update_matrix(builder, operands, options);
  return kAdamw.update(builder, operands, options);
}

}  // namespace
}  // namespace muon_op

constexpr OptimizerDef kMuon{.name = "muon",
                             .options = muon_op::kOptions,
                             .conflict = muon_op::conflict,
                             .states = muon_op::states,
                             .update = muon_op::update};

}  // namespace spillway::ops
