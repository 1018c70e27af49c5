// Products of experts (ops/grouped_linear/tiles.cuh) of which a block decodes the tiles that it reads. Not yet
// measured.
#include "ops/grouped_linear/tiles.cuh"
#include "ops/quantised_grouped_linear/operands.h"
#include "ops/quantised_matmul/decode.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace quantised_grouped_linear_op;
using namespace cuda_decode;

// Codes, whose elements are rounded to X.
template <typename X>
struct FourBitWeights {
  FourBitCodes format;
  const uint8_t* codes[kLaunchExperts];
  const void* scales[kLaunchExperts];
  const float* nested[kLaunchExperts];

  struct Decoded {
    const FourBitWeights& weights;
    int64_t expert;
    __device__ float operator[](int64_t at) const {
      const FourBitCodes& format = weights.format;
      const float scale = format.scale_of(weights.scales[expert], weights.nested[expert], at / format.block_size);
      return to_float(cuda::from_float<X>(format.element(at, weights.codes[expert][at / 2], scale)));
    }
  };
  void put(const KernelArgs& args, int64_t expert, int64_t to) {
    const QuantisedWeight weight = coded_weights(args.attributes).weight_of(args, expert);
    codes[to] = static_cast<const uint8_t*>(weight.codes);
    scales[to] = weight.scales;
    nested[to] = weight.nested;
  }
  __device__ TileOperand<Decoded> columns(int64_t expert, const Sizes& sizes) const {
    return columns_of(Decoded{*this, expert}, sizes);
  }
};

template <typename X>
struct EightBitWeights {
  EightBitCodes format;
  const uint8_t* codes[kLaunchExperts];
  const float* scales[kLaunchExperts];

  struct Decoded {
    const EightBitWeights& weights;
    int64_t expert;
    __device__ float operator[](int64_t at) const {
      const float element = weights.format.element(weights.codes[expert], weights.scales[expert], at);
      return to_float(cuda::from_float<X>(element));
    }
  };
  void put(const KernelArgs& args, int64_t expert, int64_t to) {
    const QuantisedWeight weight = coded_weights(args.attributes).weight_of(args, expert);
    codes[to] = static_cast<const uint8_t*>(weight.codes);
    scales[to] = static_cast<const float*>(weight.scales);
  }
  __device__ TileOperand<Decoded> columns(int64_t expert, const Sizes& sizes) const {
    return columns_of(Decoded{*this, expert}, sizes);
  }
};

}  // namespace

void quantised_grouped_linear_cuda(const KernelArgs& args) {
  const CodedWeights weights = coded_weights(args.attributes);
  const Sizes sizes = sizes_of(args.inputs[kX].shape, weights.shape, args.attributes);
  const int64_t experts = weights.experts(std::ssize(args.inputs));
  with_real(args.inputs[kX].dtype, [&]<typename X>(X*) {
    if (is_eight_bit(weights.format.coding)) {
      const EightBitWeights<X> empty{.format = EightBitCodes(weights.weight_of(args, 0))};
      launch_products<X>(args, sizes, experts, empty);
    } else {
      const FourBitWeights<X> empty{.format = FourBitCodes(weights.weight_of(args, 0))};
      launch_products<X>(args, sizes, experts, empty);
    }
  });
}

}  // namespace spillway::ops
