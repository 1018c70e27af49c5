#include "ops/route/route.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/route/routing.h"

namespace spillway::ops {

void route_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void route_cuda(const KernelArgs& args);
void route_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void route_grad_cuda(const KernelArgs& args);

Routing routing_of(const Attributes& attributes, int64_t experts) {
  return {.experts = experts,
          .top_k = attributes.integer("top_k"),
          .score = static_cast<RouteScore>(attributes.integer("score")),
          .normalises = attributes.integer("normalises") != 0,
          .epsilon = static_cast<float>(attributes.real("epsilon")),
          .scale = static_cast<float>(attributes.real("scale")),
          .groups = attributes.integer("groups"),
          .top_groups = attributes.integer("top_groups"),
          .best_of_group = attributes.integer("best_of_group")};
}

namespace route_op {
namespace {

constexpr std::string_view kName = "route";

void expect_sizes(const Routing& routing) {
  if (routing.experts > kMaxExperts)
    throw input_error(kName, "expected at most {} experts, got {}; use a smaller mixture", kMaxExperts,
                      routing.experts);
  expect_divides(kName, "groups", routing.groups, routing.experts);
  const int64_t to_choose_from = routing.top_groups * (routing.experts / routing.groups);
  if (routing.top_groups < 1 || routing.top_groups > routing.groups)
    throw input_error(kName, "expected from 1 to {} groups to be chosen, got {}; check the model's sizes",
                      routing.groups, routing.top_groups);
  if (routing.top_k < 1 || routing.top_k > to_choose_from)
    throw input_error(kName, "expected from 1 to {} experts of a token, got {}; check the model's sizes",
                      to_choose_from, routing.top_k);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& logits = *inputs[kLogits];
  expect_f32(kName, "logits", logits);
  expect_rank(kName, "logits", logits, 2);
  const int64_t experts = logits.shape[1];
  if (inputs[kBias] != nullptr) expect_same(kName, "bias", *inputs[kBias], {DType::kF32, {experts}});
  const Routing routing = routing_of(attributes, experts);
  expect_sizes(routing);
  const Shape chosen = {logits.shape[0], routing.top_k};
  return {{DType::kF32, chosen, logits.axis}, {DType::kI32, chosen, logits.axis}};
}

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) { return {*inputs[kLogits]}; }

const OpDef kRouteGrad{
    .name = "route_grad", .infer = infer_grad, .cost = memory_cost, .cpu = route_grad_cpu, .cuda = route_grad_cuda};

void vjp(VjpContext& context) {
  const ValueId dweights = context.cotangent(0);
  if (!context.wants(kLogits) || dweights == kNone) return;
  context.add(kLogits, context.builder().append_one(kRouteGrad, {context.input(kLogits), context.output(1), dweights},
                                                    context.attributes()));
}

// Uses all experts alike.
void fill_indices(TypeList inputs, const Attributes&, int, const TensorView& view) {
  const int64_t experts = inputs[kLogits]->shape[1];
  for (int64_t pair = 0; pair < view.elems(); ++pair) view.as<int32_t>()[pair] = static_cast<int32_t>(pair % experts);
}

const OpDef kRoute{.name = kName,
                   .infer = infer,
                   .vjp = vjp,
                   .cost = memory_cost,
                   .fill_indices = fill_indices,
                   .cpu = route_cpu,
                   .cuda = route_cuda};

}  // namespace
}  // namespace route_op

Routes route(Builder& builder, ValueId logits, const RouteOptions& options) {
  const std::vector<ValueId> outputs = builder.append(route_op::kRoute, {logits, options.bias},
                                                      {{"top_k", options.top_k},
                                                       {"score", static_cast<int64_t>(options.score)},
                                                       {"normalises", int64_t{options.normalises}},
                                                       {"epsilon", options.epsilon},
                                                       {"scale", options.scale},
                                                       {"groups", options.groups},
                                                       {"top_groups", options.top_groups},
                                                       {"best_of_group", options.best_of_group}});
  return {.weights = outputs[0], .experts = outputs[1]};
}

}  // namespace spillway::ops
