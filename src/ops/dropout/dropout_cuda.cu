// x is read and written (4 bytes per element in bf16); ten rounds of philox for every four elements are some 25 integer
// instructions per element, which takes a GPU about as long. Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "base/random.h"
#include "ops/dropout/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

template <typename T>
struct Dropout {
  static constexpr int kWidth = cuda::kVector<T>;
  static_assert(kWidth % 4 == 0, "a vector takes whole blocks of philox");
  const T* x;
  const int64_t* seed;
  T* y;
  DropPlace place;
  uint64_t stream;
  uint32_t limit;  // bits below it drop
  float scale;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> v = cuda::load(x, span);
    if (*seed >= 0) {
      const int64_t first = place.first() + span.begin;
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        const auto bits = philox(static_cast<uint64_t>(*seed), stream, static_cast<uint64_t>(first + i) / 4);
#pragma unroll
        for (int j = 0; j < 4; ++j) v[i + j] = (bits[j] >> 8) < limit ? 0.0f : v[i + j] * scale;
      }
    }
    cuda::store(v, y, span);
  }
};

}  // namespace

void dropout_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[dropout_op::kX], &y = args.outputs[0];
  const double p = args.attributes.real("p");
  with_real(x.dtype, [&]<typename T>(T*) {
    const Dropout<T> body{.x = x.as<T>(),
                          .seed = args.inputs[dropout_op::kSeed].as<int64_t>(),
                          .y = y.as<T>(),
                          .place = DropPlace(args),
                          .stream = static_cast<uint64_t>(args.attributes.integer("stream")),
                          .limit = drop_limit(p),
                          .scale = static_cast<float>(1 / (1 - p))};
    cuda::map(x.elems(), body, args.stream);
  });
}

}  // namespace spillway::ops
