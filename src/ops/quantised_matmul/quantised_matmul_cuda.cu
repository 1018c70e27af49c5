// The weight is decoded into scratch, 2 bytes an element in bf16, and multiplied by cuBLASLt: the decoding costs its
// bytes once per product, which many rows hide. Not yet measured.
#include <array>

#include "backend/cuda/map.cuh"
#include "ops/matmul/matmul_shape.h"
#include "ops/quantised_matmul/decode.cuh"
#include "ops/quantised_matmul/operands.h"
#include "ops/real.h"

namespace spillway::ops {

using namespace quantised_matmul_op;
using namespace cuda_decode;

void matmul_cuda(const KernelArgs& args);

namespace {

template <typename T>
struct DecodeFourBit {
  static constexpr int kWidth = 8;  // of one block
  FourBitCodes format;
  const uint8_t* codes;
  const void* scales;
  const float* nested;
  T* out;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const float scale = format.scale_of(scales, nested, span.begin / format.block_size);
    cuda::Floats<kWidth> values;
    for (int i = 0; i < kWidth; ++i) {
      const uint8_t pair = i < span.count ? codes[(span.begin + i) / 2] : uint8_t{0};
      values[i] = format.element(i, pair, scale);
    }
    cuda::store(values, out, span);
  }
};

template <typename T>
struct DecodeEightBit {
  static constexpr int kWidth = cuda::kVector<T>;
  EightBitCodes format;
  const uint8_t* codes;
  const float* scales;
  T* out;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> values;
    for (int i = 0; i < kWidth; ++i) values[i] = i < span.count ? format.element(codes, scales, span.begin + i) : 0.0f;
    cuda::store(values, out, span);
  }
};

template <typename T>
void decode_four_bit(const QuantisedWeight& weight, T* out, void* stream) {
  const DecodeFourBit<T> body{.format = FourBitCodes(weight),
                              .codes = static_cast<const uint8_t*>(weight.codes),
                              .scales = weight.scales,
                              .nested = weight.nested,
                              .out = out};
  cuda::map(weight.rows * weight.columns, body, stream);
}

template <typename T>
void decode_eight_bit(const QuantisedWeight& weight, T* out, void* stream) {
  const DecodeEightBit<T> body{.format = EightBitCodes(weight),
                               .codes = static_cast<const uint8_t*>(weight.codes),
                               .scales = static_cast<const float*>(weight.scales),
                               .out = out};
  cuda::map(weight.rows * weight.columns, body, stream);
}

}  // namespace

void quantised_matmul_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[kX];
  const QuantisedWeight weight = weight_of(args);
  with_real(x.dtype, [&]<typename T>(T*) {
    T* const out = reinterpret_cast<T*>(args.workspace);
    if (is_eight_bit(weight.format.coding)) {
      decode_eight_bit(weight, out, args.stream);
    } else {
      decode_four_bit(weight, out, args.stream);
    }
  });
  const auto operands = decoded_operands(args, {args.workspace, x.dtype, {weight.rows, weight.columns}});
  KernelArgs product = args;
  product.inputs = operands;
  product.workspace += decoded_bytes(args.attributes, x.dtype);
  matmul_cuda(product);
}

}  // namespace spillway::ops
