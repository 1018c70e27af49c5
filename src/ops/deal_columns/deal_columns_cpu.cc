// The kernels are bound by memory: every element is read and written once.
#include <type_traits>

#include "backend/kernel.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/deal_columns/places.h"
#include "ops/real.h"
#include "ops/simd.h"

namespace spillway::ops {
namespace {

template <typename T>
T dealt_number(float number) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(number);
  } else {
    return number;
  }
}

// Adds up the copies of a block of row t.
template <typename T>
void sum_copies(const DealtPlaces& places, const T* pieces, int64_t t, int64_t block, T* to) {
  for (int64_t column = 0; column < places.block; ++column) {
    float sum = 0;
    for (int64_t i = 0; i < places.spread; ++i) sum += to_float(pieces[places.copy_of(t, block, i) + column]);
    to[column] = dealt_number<T>(sum);
  }
}

}  // namespace

void deal_columns_cpu(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const DealtPlaces places(deal_of(args.attributes), x, out);
  const int64_t elem_bytes = size_of(x.dtype), bytes = places.block * elem_bytes;
  args.threads->parallel_for(places.rows, row_grain(places.width), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t r = 0; r < places.ranks; ++r) {
        std::byte* to = out.as<std::byte>() + places.row_of_piece(r, t) * elem_bytes;
        for (int64_t i = 0; i < places.of_piece; ++i, to += bytes) {
          const int64_t block = places.block_of(r, i);
          if (block >= places.blocks) {
            fill_memory(to, 0, bytes);
          } else {
            copy_memory(to, x.as<std::byte>() + (t * places.width + block * places.block) * elem_bytes, bytes);
          }
        }
      }
    }
  });
}

void collect_columns_cpu(const KernelArgs& args) {
  const TensorView &pieces = args.inputs[0], &out = args.outputs[0];
  const DealtPlaces places(deal_of(args.attributes), out, pieces);
  const int64_t bytes = places.block * size_of(out.dtype);
  with_real(out.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(places.rows, row_grain(places.width), [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t block = 0; block < places.blocks; ++block) {
          T* const to = out.as<T>() + t * places.width + block * places.block;
          if (places.spread == 1) {
            copy_memory(to, pieces.as<T>() + places.copy_of(t, block, 0), bytes);
          } else {
            sum_copies(places, pieces.as<const T>(), t, block, to);
          }
        }
      }
    });
  });
}

}  // namespace spillway::ops
