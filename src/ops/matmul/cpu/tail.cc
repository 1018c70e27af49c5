#include "ops/matmul/cpu/tail.h"

#include <algorithm>

#include "backend/cpu/for_each.h"
#include "base/math.h"
#include "ops/matmul/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// Multiplies the elements of a panel, which are then rounded to their type again.
void scale(const PanelSource& source, float factor, float* words, int64_t count) {
  if (factor == 1) return;
  if (source.format == PanelFormat::kF32) {
    const bool rounds = source.dtype == DType::kBF16;
    for (int64_t i = 0; i < count; ++i) {
      const float product = words[i] * factor;
      words[i] = rounds ? to_float(to_bf16(product)) : product;
    }
  } else {
    auto* const elems = reinterpret_cast<bf16*>(words);
    for (int64_t i = 0; i < 2 * count; ++i) elems[i] = to_bf16(to_float(elems[i]) * factor);
  }
}

// Calls body(first unit, units) for each part of k that a tile multiplies in one go.
template <typename Body>
void for_each_depth(const MatmulTail& tail, const Body& body) {
  for (int64_t unit = 0; unit < tail.units; unit += tail.depth) body(unit, std::min(tail.depth, tail.units - unit));
}

PanelRange range_of(const MatmulJob& job, int64_t panel, int64_t width, int64_t vectors, int64_t unit, int64_t units) {
  return {.first = panel * width,
          .count = std::min(width, vectors - panel * width),
          .width = width,
          .k_begin = unit * job.unit_elems,
          .k_end = std::min(job.tail.k, (unit + units) * job.unit_elems)};
}

}  // namespace

void TailPanels::pack_left(int64_t panel) const {
  float* const words = left_ + panel * left_words();
  for_each_depth(job_.tail, [&](int64_t unit, int64_t units) {
    job_.tiles.pack_left(job_.tail.left, range_of(job_, panel, job_.height, job_.m, unit, units),
                         words + unit * job_.height);
  });
  if (job_.tail.scales_left) scale(job_.tail.left, job_.tail.factor, words, left_words());
}

void TailPanels::pack_right(int64_t panel) const {
  float* const words = right_ + panel * right_words();
  for_each_depth(job_.tail, [&](int64_t unit, int64_t units) {
    const PanelRange range = range_of(job_, panel, job_.columns, job_.n, unit, units);
    const int64_t packed = div_ceil(range.k_end - range.k_begin, job_.unit_elems);
    job_.kernels.pack(job_.tail.right, range, words + unit * job_.columns);
    std::fill_n(words + (unit + packed) * job_.columns, (units - packed) * job_.columns, 0.0f);
  });
  if (!job_.tail.scales_left) scale(job_.tail.right, job_.tail.factor, words, right_words());
}

void TailPanels::pack(ThreadPool& pool) const {
  if (job_.tail.units == 0) return;
  for_each(pool, job_.row_panels + job_.column_panels, [&](int64_t index, int) {
    if (index < job_.row_panels) {
      pack_left(index);
    } else {
      pack_right(index - job_.row_panels);
    }
  });
}

void TailPanels::add_to(float* tile, int64_t stride, int64_t row_panel, int64_t column_panel) const {
  const float *const left = left_ + row_panel * left_words(), *const right = right_ + column_panel * right_words();
  const int64_t rows = std::min(job_.height, job_.m - row_panel * job_.height);
  for_each_depth(job_.tail, [&](int64_t unit, int64_t units) {
    job_.products[rows - 1](job_.tiles.packed(left + unit * job_.height, job_.height), right + unit * job_.columns,
                            units, tile, stride, true);
  });
}

}  // namespace spillway::cpu
