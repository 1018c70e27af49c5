// The weights of experts that quantised_grouped_linear reads as codes: the parts of each follow one another from
// kFirstWeight on. The other operands are those of grouped_linear.
#pragma once

#include "ops/grouped_linear/operands.h"
#include "ops/quantised_matmul/operands.h"

namespace spillway::ops::quantised_grouped_linear_op {

using namespace grouped_linear_op;

struct CodedWeights {
  QuantisedFormat format;
  Shape shape;  // of a weight

  // Returns the number of an expert's parts.
  [[nodiscard]] int64_t parts() const { return format.double_quant && format.coding != WeightCoding::kInt8 ? 3 : 2; }
  // Returns the number of experts of an operation with so many inputs.
  [[nodiscard]] int64_t experts(int64_t inputs) const { return (inputs - kFirstWeight) / parts(); }
  [[nodiscard]] QuantisedWeight weight_of(const KernelArgs& args, int64_t expert) const {
    return quantised_weight(format, shape[0], shape[1],
                            args.inputs.subspan(static_cast<size_t>(kFirstWeight + expert * parts())));
  }
};

[[nodiscard]] inline CodedWeights coded_weights(const Attributes& attributes) {
  return {quantised_format(attributes), {attributes.integer("rows"), attributes.integer("columns")}};
}

}  // namespace spillway::ops::quantised_grouped_linear_op
