#include "ops/grouped_linear/rows_cpu.h"
#include "ops/quantised_grouped_linear/operands.h"

namespace spillway::ops {
namespace {

// An expert's weight as a matrix that is decoded.
class CodedMatrix {
 public:
  CodedMatrix(const QuantisedWeight& weight, DType dtype)
      : weight_(weight), decoder_(decoder_of(weight_)), dtype_(dtype) {}
  CodedMatrix(const CodedMatrix&) = delete;  // the decoder points to the weight
  CodedMatrix& operator=(const CodedMatrix&) = delete;
  operator cpu::Matrix() const { return {nullptr, dtype_, weight_.columns, &decoder_}; }

 private:
  QuantisedWeight weight_;
  cpu::MatrixDecoder decoder_;
  DType dtype_;
};

}  // namespace

void quantised_grouped_linear_cpu(const KernelArgs& args) {
  using namespace quantised_grouped_linear_op;
  const TensorView& x = args.inputs[kX];
  const CodedWeights weights = coded_weights(args.attributes);
  const Sizes sizes = sizes_of(x.shape, weights.shape, args.attributes);
  multiply_rows(
      args, sizes, weights.experts(std::ssize(args.inputs)),
      [&](int64_t i) { return CodedMatrix(weights.weight_of(args, i), x.dtype); },
      workspace_of_rows(sizes, x.shape, x.dtype, x.dtype, args.threads->threads(),
                        cpu::decoding_matmul_workspace_bytes),
      args.workspace);
}

}  // namespace spillway::ops
