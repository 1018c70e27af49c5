#include "ops/attention/attention.h"

#include <algorithm>
#include <utility>

#include "backend/kernel.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/attention/attention_attributes.h"
#include "ops/attention/cpu/passes.h"
#include "ops/attention/cuda/shared.h"
#include "ops/attention/operands.h"
#include "ops/check.h"

namespace spillway::ops {

void attention_cuda(const KernelArgs& args);
void attention_grad_cuda(const KernelArgs& args);

Attributes to_attributes(const AttentionOptions& options, int64_t tokens) {
  Attributes attributes{{"heads", options.heads},
                        {"kv_heads", options.kv_heads},
                        {"head_size", options.head_size},
                        {"sliding_window", options.sliding_window},
                        {"scale", options.scale},
                        {"sequence_len", options.sequence_len},
                        {"tokens", tokens}};
  if (options.soft_cap > 0) attributes.add("soft_cap", options.soft_cap);
  if (!options.causal) {
    attributes.add("causal", int64_t{0});
    attributes.add("key_sequence_len", options.key_sequence_len);
  }
  return attributes;
}

void expect_attention_sizes(std::string_view op, const Attributes& attributes) {
  expect_divides(op, "a number of key heads", attributes.integer("kv_heads"), attributes.integer("heads"));
  if (attributes.integer("head_size") <= 0 || attributes.integer("sliding_window") < 0) {
    throw input_error(op, "expected a head size above 0 and no negative window, got {}; check the model's sizes",
                      to_string(attributes));
  }
  if (attributes.integer("sliding_window") > 0 && !is_causal(attributes)) {
    throw input_error(op, "expected no sliding window where attention is not causal, got {}; set it to 0",
                      attributes.integer("sliding_window"));
  }
}

namespace {

const ValueType* key_offsets_of(TypeList inputs, size_t at) { return inputs.size() > at ? inputs[at] : nullptr; }

void expect_operands(std::string_view op, TypeList inputs, const ValueType* key_offsets, const Attributes& attributes) {
  expect_attention_sizes(op, attributes);
  const int64_t heads = attributes.integer("heads"), kv_heads = attributes.integer("kv_heads");
  const int64_t head_size = attributes.integer("head_size");
  const ValueType &q = *inputs[0], &offsets = *inputs[3];
  expect_real(op, "q", q);
  expect_rank(op, "q", q, 2);
  expect_same(op, "q", q, {q.dtype, {q.shape[0], heads * head_size}, q.axis});
  expect_rank(op, "k", *inputs[1], 2);
  const ValueType& rows = key_offsets == nullptr ? q : *inputs[1];
  const ValueType keys{q.dtype, {rows.shape[0], kv_heads * head_size}, rows.axis};
  expect_same(op, "k", *inputs[1], keys);
  expect_same(op, "v", *inputs[2], keys);
  expect_rank(op, "seq_offsets", offsets, 1);
  expect_same(op, "seq_offsets", offsets, {DType::kI32, {std::max<int64_t>(2, offsets.shape[0])}});
  if (key_offsets == nullptr) return;
  expect_same(op, "key_offsets", *key_offsets, offsets);
  if (is_causal(attributes))
    throw input_error(op,
                      "expected keys of the same tokens where attention is causal, got others; set causal to false");
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  expect_operands("attention", inputs, key_offsets_of(inputs, kKeyOffsets), attributes);
  const ValueType& q = *inputs[0];
  return {q, {DType::kF32, {q.shape[0], attributes.integer("heads")}, q.axis}};
}

// Takes inputs q, k, v, seq_offsets, o, lse, do, the keys' offsets if they are of another stream; outputs are dq, dk,
// dv.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "attention_grad";
  expect_operands(kName, inputs, key_offsets_of(inputs, kKeyOffsetsOfGrad), attributes);
  const ValueType& q = *inputs[0];
  expect_same(kName, "o", *inputs[4], q);
  expect_same(kName, "lse", *inputs[5], {DType::kF32, {q.shape[0], attributes.integer("heads")}, q.axis});
  expect_same(kName, "do", *inputs[6], q);
  return {q, *inputs[1], *inputs[2]};
}

// Returns the keys that a token sees, taking the sequences to divide their stream evenly.
double keys_seen(TypeList inputs, bool is_of_others, const Attributes& attributes) {
  const auto rows = static_cast<double>(inputs[is_of_others ? 1 : 0]->shape[0]);
  const int64_t longest = attributes.integer_or(is_of_others ? "key_sequence_len" : "sequence_len", 0);
  const double length = longest > 0 ? std::min(static_cast<double>(longest), rows) : rows;
  if (!is_causal(attributes)) return length;
  const auto window = static_cast<double>(attributes.integer("sliding_window"));
  return window > 0 ? std::min(length / 2, window) : length / 2;
}

// Returns the cost of the products. Scores and their use are two products forward and five backward.
Cost product_cost(TypeList inputs, TypeList outputs, const ValueType* key_offsets, const Attributes& attributes,
                  double products) {
  Cost result = memory_cost(inputs, outputs, attributes);
  const auto tokens = static_cast<double>(inputs[0]->shape[0]), width = static_cast<double>(inputs[0]->shape[1]);
  result.flops = products * 2 * tokens * keys_seen(inputs, key_offsets != nullptr, attributes) * width;
  result.matrix_product = result.in_f32 = true;
  return result;
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  return product_cost(inputs, outputs, key_offsets_of(inputs, kKeyOffsets), attributes, 2);
}

Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  // For long sequences scores are computed twice, for dq and for dk and dv.
  return product_cost(inputs, outputs, key_offsets_of(inputs, kKeyOffsetsOfGrad), attributes, 7);
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  return cpu::attention_workspace_bytes(inputs[0]->shape[0], attributes.integer("heads"),
                                        attributes.integer("kv_heads"), attributes.integer("head_size"), threads);
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  return cpu::attention_backward_workspace_bytes(inputs[0]->shape[0], inputs[1]->shape[0], attributes.integer("heads"),
                                                 attributes.integer("kv_heads"), attributes.integer("head_size"),
                                                 threads);
}

int64_t cuda_workspace(TypeList inputs, const Attributes& attributes, bool is_backward) {
  const cuda::LibraryAttention library =
      cuda::library_attention(attributes, inputs[0]->dtype, inputs[3]->shape[0] - 1, is_backward);
  return cuda::own_workspace(library).bytes + cuda::LibraryWorkspace(library).bytes;
}

int64_t cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  return cuda_workspace(inputs, attributes, false);
}

int64_t grad_cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  return cuda_workspace(inputs, attributes, true);
}

cpu::AttentionArgs kernel_args(const KernelArgs& args, const TensorView& o, const TensorView& lse, size_t key_offsets) {
  const TensorView& offsets = args.inputs[3];
  auto result = attention_operands<cpu::AttentionArgs>(args);
  result.seq_offsets = offsets.as<int32_t>();
  result.sequences = offsets.shape[0] - 1;
  result.q_stride = args.inputs[0].shape[1];
  result.k_stride = args.inputs[1].shape[1];
  result.v_stride = args.inputs[2].shape[1];
  result.o = o.data;
  result.lse = lse.as<float>();
  if (args.inputs.size() > key_offsets) {
    result.key_offsets = args.inputs[key_offsets].as<int32_t>();
    result.key_tokens = args.inputs[1].shape[0];
  }
  return result;
}

void attention_cpu(const KernelArgs& args) {
  cpu::attention_forward(kernel_args(args, args.outputs[0], args.outputs[1], kKeyOffsets), args.workspace,
                         *args.threads);
}

void attention_grad_cpu(const KernelArgs& args) {
  cpu::attention_backward({.forward = kernel_args(args, args.inputs[4], args.inputs[5], kKeyOffsetsOfGrad),
                           .d_o = args.inputs[6].data,
                           .dq = args.outputs[0].data,
                           .dk = args.outputs[1].data,
                           .dv = args.outputs[2].data},
                          args.workspace, *args.threads);
}

// The kernel is done with o before it writes; the others are read to the end.
const OpDef kAttentionGrad{.name = "attention_grad",
                           .infer = infer_grad,
                           .cost = grad_cost,
                           .workspace_bytes = grad_workspace_bytes,
                           .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                           .in_place = {{0, 4}},
                           .cpu = attention_grad_cpu,
                           .cuda = SPILLWAY_CUDA_KERNEL(attention_grad_cuda)};

void vjp(VjpContext& context) {
  std::vector<ValueId> inputs = {context.input(0),  context.input(1),  context.input(2),    context.input(3),
                                 context.output(0), context.output(1), context.cotangent(0)};
  if (context.inputs() > static_cast<int>(kKeyOffsets)) inputs.push_back(context.input(kKeyOffsets));
  const std::vector<ValueId> gradients =
      context.builder().append(kAttentionGrad, std::move(inputs), context.attributes());
  for (const int i : {0, 1, 2}) {
    if (context.wants(i)) context.add(i, nth(gradients, i));
  }
}

const OpDef kAttention{.name = "attention",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = cost,
                       .workspace_bytes = workspace_bytes,
                       .cuda_workspace_bytes = cuda_workspace_bytes,
                       .recompute_cost = RecomputeCost::kAttention,
                       .cpu = attention_cpu,
                       .cuda = SPILLWAY_CUDA_KERNEL(attention_cuda)};

}  // namespace

ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                  const AttentionOptions& options) {
  return builder.append(kAttention, {q, k, v, seq_offsets}, to_attributes(options, builder.type(q).shape[0]))[0];
}

ValueId cross_attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets, ValueId key_offsets,
                        const AttentionOptions& options) {
  Attributes attributes = to_attributes(options, builder.type(q).shape[0]);
  attributes.add("key_tokens", builder.type(k).shape[0]);
  return builder.append(kAttention, {q, k, v, seq_offsets, key_offsets}, std::move(attributes))[0];
}

}  // namespace spillway::ops
