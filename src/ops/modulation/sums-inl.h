// The last step of a modulation's gradient; compiled once for each instruction set.
#if defined(SPILLWAY_OPS_MODULATION_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_MODULATION_SUMS_INL_H
#undef SPILLWAY_OPS_MODULATION_SUMS_INL_H
#else
#define SPILLWAY_OPS_MODULATION_SUMS_INL_H
#endif

#include <algorithm>
#include <span>

#include "ops/modulation/token_blocks.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// A part that has a gradient: its number, and the sums of its blocks, f32 [blocks, width].
struct PartSums {
  int64_t part;
  const float* sums;
};

// Computes out = addend (if there is one), to which each sequence's blocks are added in order.
inline void add_parts(const ModulationRows& modulation, std::span<const PartSums> parts, const TensorView& addend,
                      const TensorView& out, ThreadPool& threads) {
  const int64_t width = modulation.width;
  threads.parallel_for(out.shape[0], 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
    const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
    for (int64_t row = begin; row < end; ++row) {
      float* to = out.as<float>() + row * modulation.row_width;
      if (addend.data == nullptr) {
        std::fill_n(to, modulation.row_width, 0.0f);
      } else if (addend.data != out.data) {
        std::copy_n(addend.as<float>() + row * modulation.row_width, modulation.row_width, to);
      }
      const int64_t first = modulation.blocks.first_block(row), last = first + modulation.blocks.blocks_of(row);
      for (const PartSums& part : parts) {
        float* of_part = to + part.part * width;
        for (int64_t block = first; block < last; ++block)
          map(0, width, plus, of_part, of_part, part.sums + block * width);
      }
    }
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
