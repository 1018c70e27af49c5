// The weight is decoded into scratch, 2 bytes an element in bf16, and multiplied by cuBLASLt: the decoding costs its
// bytes once per product, which many rows hide. Not yet measured.
#include <array>

#include "backend/cuda/map.cuh"
#include "ops/matmul/matmul_shape.h"
#include "ops/quantised_matmul/operands.h"
#include "ops/real.h"
#include "tensor/codebook.h"

namespace spillway::ops {

using namespace quantised_matmul_op;

void matmul_cuda(const KernelArgs& args);

namespace {

// Returns a value rounded to a dtype.
__device__ float rounded_to(DType dtype, float value) {
  if (dtype == DType::kBF16) return to_float(cuda::from_float<bf16>(value));
  if (dtype == DType::kF16) return to_float(to_f16(value));
  return value;
}

template <typename T>
struct DecodeFourBit {
  static constexpr int kWidth = 8;  // of one block
  const uint8_t* codes;
  const uint8_t* nested_codes;  // null where scales are f32
  const float* scales;          // or the nested ones
  T* out;
  int64_t block_size, nested_blocks;
  DType weight_dtype;
  float codebook[16];
  float nested_values[256];

  __device__ float scale_of(int64_t block) const {
    if (nested_codes == nullptr) return scales[block];
    const float scaled = nested_values[nested_codes[block]] * scales[block / kNestedBlockSize];
    return scaled + scales[nested_blocks];
  }
  __device__ void operator()(cuda::Span<kWidth> span) const {
    const float scale = scale_of(span.begin / block_size);
    cuda::Floats<kWidth> values;
    for (int i = 0; i < kWidth; ++i) {
      const uint8_t pair = i < span.count ? codes[(span.begin + i) / 2] : uint8_t{0};
      values[i] = rounded_to(weight_dtype, codebook[i % 2 == 0 ? pair >> 4 : pair & 15] * scale);
    }
    cuda::store(values, out, span);
  }
};

template <typename T>
struct DecodeInt8 {
  static constexpr int kWidth = cuda::kVector<T>;
  const int8_t* codes;
  const float* scales;
  T* out;
  int64_t columns;
  DType weight_dtype;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> values;
    for (int i = 0; i < kWidth; ++i) {
      const int64_t at = span.begin + i;
      values[i] = i < span.count ? rounded_to(weight_dtype,
                                              static_cast<float>(codes[at]) * (scales[at / columns] * (1.0f / 127.0f)))
                                 : 0.0f;
    }
    cuda::store(values, out, span);
  }
};

template <typename T>
void decode_four_bit(const QuantisedWeight& weight, T* out, void* stream) {
  const QuantisedFormat& format = weight.format;
  const int64_t elems = weight.rows * weight.columns, blocks = div_ceil(elems, format.block_size);
  DecodeFourBit<T> body{.codes = static_cast<const uint8_t*>(weight.codes),
                        .nested_codes = format.double_quant ? static_cast<const uint8_t*>(weight.scales) : nullptr,
                        .scales = format.double_quant ? weight.nested : static_cast<const float*>(weight.scales),
                        .out = out,
                        .block_size = format.block_size,
                        .nested_blocks = div_ceil(blocks, kNestedBlockSize),
                        .weight_dtype = format.weight_dtype};
  const auto& codebook = format.coding == WeightCoding::kNf4 ? kNf4 : kFp4;
  std::copy(codebook.begin(), codebook.end(), body.codebook);
  std::copy(kDynamicSigned.begin(), kDynamicSigned.end(), body.nested_values);
  cuda::map(elems, body, stream);
}

template <typename T>
void decode_int8(const QuantisedWeight& weight, T* out, void* stream) {
  const DecodeInt8<T> body{.codes = static_cast<const int8_t*>(weight.codes),
                           .scales = static_cast<const float*>(weight.scales),
                           .out = out,
                           .columns = weight.columns,
                           .weight_dtype = weight.format.weight_dtype};
  cuda::map(weight.rows * weight.columns, body, stream);
}

}  // namespace

void quantised_matmul_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[kX];
  const QuantisedWeight weight = weight_of(args);
  with_real(x.dtype, [&]<typename T>(T*) {
    T* const out = reinterpret_cast<T*>(args.workspace);
    if (weight.format.coding == WeightCoding::kInt8) {
      decode_int8(weight, out, args.stream);
    } else {
      decode_four_bit(weight, out, args.stream);
    }
  });
  const std::array<TensorView, 4> operands = {x, TensorView{args.workspace, x.dtype, {weight.rows, weight.columns}},
                                              args.inputs[kAddend], args.inputs[kBias]};
  KernelArgs product = args;
  product.inputs = operands;
  product.workspace += decoded_bytes(args.attributes, x.dtype);
  matmul_cuda(product);
}

}  // namespace spillway::ops
