#include "ops/quantised_matmul/quantised_matmul.h"

#include <array>

#include "base/bytes.h"
#include "base/math.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/matmul/matmul.h"
#include "ops/optional_kernel.h"
#include "ops/quantised_matmul/operands.h"
#include "ops/sum_rows/sum_rows.h"

namespace spillway::ops {

SPILLWAY_OPTIONAL_KERNEL void quantised_matmul_cuda(const KernelArgs& args);

void add_weight(Attributes& attributes, const QuantisedFormat& format, int64_t rows, int64_t columns) {
  attributes.add("rows", rows);
  attributes.add("columns", columns);
  attributes.add("coding", static_cast<int64_t>(format.coding));
  attributes.add("block_size", format.block_size);
  attributes.add("double_quant", int64_t{format.double_quant});
  attributes.add("weight_dtype", static_cast<int64_t>(format.weight_dtype));
  attributes.add("block_rows", format.block_rows);
  attributes.add("block_columns", format.block_columns);
}

QuantisedFormat quantised_format(const Attributes& attributes) {
  return {.coding = static_cast<WeightCoding>(attributes.integer("coding")),
          .block_size = attributes.integer("block_size"),
          .double_quant = attributes.integer("double_quant") != 0,
          .weight_dtype = static_cast<DType>(attributes.integer("weight_dtype")),
          .block_rows = attributes.integer("block_rows"),
          .block_columns = attributes.integer("block_columns")};
}

QuantisedWeight weight_of(const KernelArgs& args) {
  return quantised_weight(quantised_format(args.attributes), args.attributes.integer("rows"),
                          args.attributes.integer("columns"), args.inputs.subspan(quantised_matmul_op::kParts));
}

std::array<TensorView, matmul_op::kInputs> decoded_operands(const KernelArgs& args, const TensorView& weight) {
  using namespace quantised_matmul_op;
  return {args.inputs[kX], weight, args.inputs[kAddend], args.inputs[kBias], args.inputs[kTailA], args.inputs[kTailB]};
}

int64_t decoded_bytes(const Attributes& attributes, DType dtype) {
  return align_up(attributes.integer("rows") * attributes.integer("columns") * size_of(dtype), 256);
}

namespace quantised_matmul_op {
namespace {

// The types of the product's operands if its weight were decoded.
class DecodedTypes {
 public:
  DecodedTypes(TypeList inputs, const Attributes& attributes)
      : weight_{inputs[kX]->dtype, {attributes.integer("rows"), attributes.integer("columns")}},
        types_{inputs[kX], &weight_, inputs[kAddend], inputs[kBias], inputs[kTailA], inputs[kTailB]} {}
  DecodedTypes(const DecodedTypes&) = delete;

  [[nodiscard]] TypeList types() const { return types_; }
  [[nodiscard]] const ValueType& weight() const { return weight_; }

 private:
  ValueType weight_;
  std::array<const ValueType*, matmul_op::kInputs> types_;
};

void expect_format(const QuantisedFormat& format) {
  if (!is_four_bit_block_size(format.block_size)) {
    throw input_error("quantised_matmul", "expected blocks of a power of two from 32 to 4096, got {}; quantise again",
                      format.block_size);
  }
  if (format.block_rows < 1 || format.block_columns < 0) {
    throw input_error("quantised_matmul", "expected blocks of at least 1 x 0, got {} x {}; quantise again",
                      format.block_rows, format.block_columns);
  }
  if (format.coding == WeightCoding::kFp8 && format.weight_dtype != DType::kF32) {
    throw input_error("quantised_matmul", "expected a weight of f32 in FP8, got {}; quantise again",
                      name_of(format.weight_dtype));
  }
  if (!is_real(format.weight_dtype) && format.weight_dtype != DType::kF16) {
    throw input_error("quantised_matmul", "expected a weight of f32, bf16 or f16, got {}; quantise again",
                      name_of(format.weight_dtype));
  }
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const QuantisedFormat format = quantised_format(attributes);
  expect_format(format);
  const DecodedTypes decoded(inputs, attributes);
  const std::vector<ValueType> parts = quantised_parts(format, decoded.weight().shape[0], decoded.weight().shape[1]);
  if (inputs.size() != kParts + parts.size()) {
    throw input_error("quantised_matmul", "expected {} parts of a weight, got {}; give those of its format",
                      parts.size(), inputs.size() - kParts);
  }
  constexpr std::array<std::string_view, 3> kNames = {"codes", "scales", "nested scales"};
  for (size_t i = 0; i < parts.size(); ++i) expect_same("quantised_matmul", kNames[i], *inputs[kParts + i], parts[i]);
  return infer_product("quantised_matmul", decoded.types(), attributes);
}

// y = alpha x op(W) + tail + bias + addend: dx = alpha dy op(W)'.
void vjp(VjpContext& context) {
  Builder& builder = context.builder();
  const Attributes attributes = context.attributes();
  const ValueId dy = context.cotangent(0);
  add_tail_gradients(context, kTailA);
  if (context.wants(kX)) {
    std::vector<ValueId> parts;
    for (int i = kParts; i < context.inputs(); ++i) parts.push_back(context.input(i));
    const QuantisedMatmulOptions options{.transpose = attributes.integer("transpose_b") == 0,
                                         .alpha = attributes.real("alpha"),
                                         .addend = context.take_addend(kX),
                                         .out_dtype = context.gradient_dtype(kX)};
    context.add(kX, quantised_matmul(builder, dy,
                                     {.parts = parts,
                                      .rows = attributes.integer("rows"),
                                      .columns = attributes.integer("columns"),
                                      .format = quantised_format(attributes)},
                                     options));
  }
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
  if (context.wants(kBias)) {
    const ValueId addend = context.take_addend(kBias);
    context.add(kBias, sum_rows(builder, dy, addend, context.gradient_dtype(kBias)));
  }
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = product_cost(DecodedTypes(inputs, attributes).types(), outputs, attributes);
  result.bytes = memory_cost(inputs, outputs, attributes).bytes;
  return result;
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  return product_workspace_bytes(DecodedTypes(inputs, attributes).types(), attributes, threads, true);
}

int64_t cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  return decoded_bytes(attributes, inputs[kX]->dtype) +
         product_cuda_workspace_bytes(DecodedTypes(inputs, attributes).types(), outputs, attributes);
}

void quantised_matmul_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[kX];
  const QuantisedWeight weight = weight_of(args);
  const cpu::MatrixDecoder decoder = decoder_of(weight);
  multiply_cpu(args, decoded_operands(args, {nullptr, x.dtype, {weight.rows, weight.columns}}),
               {nullptr, x.dtype, weight.columns, &decoder});
}

const OpDef kQuantisedMatmul{.name = "quantised_matmul",
                             .infer = infer,
                             .vjp = vjp,
                             .cost = cost,
                             .workspace_bytes = workspace_bytes,
                             .cuda_workspace_bytes = cuda_workspace_bytes,
                             .in_place = {{0, 1}},  // kAddend
                             .recompute_cost = RecomputeCost::kProduct,
                             .tail_input = kTailA,
                             .cpu = quantised_matmul_cpu,
                             .cuda = quantised_matmul_cuda};

}  // namespace
}  // namespace quantised_matmul_op

ValueId quantised_matmul(Builder& builder, ValueId x, const QuantisedOperand& weight,
                         const QuantisedMatmulOptions& options) {
  std::vector<ValueId> inputs = {x, options.addend, options.bias, options.tail.a, options.tail.b};
  inputs.insert(inputs.end(), weight.parts.begin(), weight.parts.end());
  Attributes attributes{{"transpose_a", int64_t{0}},
                        {"transpose_b", int64_t{options.transpose}},
                        {"alpha", options.alpha},
                        {"tail_alpha", options.tail.alpha},
                        {"dtype", static_cast<int64_t>(options.out_dtype.value_or(builder.type(x).dtype))}};
  add_weight(attributes, weight.format, weight.rows, weight.columns);
  return builder.append_one(quantised_matmul_op::kQuantisedMatmul, inputs, std::move(attributes));
}

}  // namespace spillway::ops
