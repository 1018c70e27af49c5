#include "ops/row_slice.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "ops/memory.h"

namespace spillway::ops {
namespace {

int64_t row_elems(const Shape& weight) { return weight[0] == 0 ? 0 : weight.elems() / weight[0]; }

}  // namespace

RowSlice slice_of(const Attributes& attributes) {
  return {attributes.integer("first_row"), attributes.integer("rows")};
}

std::vector<RowSlice> slice_rows(const Shape& weight, int64_t max_elems, int64_t unit) {
  const int64_t rows = weight[0], row = std::max<int64_t>(1, row_elems(weight));
  if (unit == 0) return {{0, rows}};
  const int64_t step = unit / std::gcd(unit, row), steps = div_ceil(rows, step);
  // Takes no more than there are: `max_elems` may be the largest possible number.
  const int64_t max_steps = std::clamp<int64_t>(max_elems / row / step, 1, std::max<int64_t>(1, steps));
  const int64_t slices = std::max<int64_t>(1, div_ceil(steps, max_steps));
  std::vector<RowSlice> result;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t first = steps * i / slices * step;
    result.push_back({first, std::min(rows, steps * (i + 1) / slices * step) - first});
  }
  return result;
}

Shape shape_of(const RowSlice& slice, const Shape& weight) {
  SPILLWAY_CHECK(weight.rank() > 0 && slice.first >= 0 && slice.count >= 0 && slice.first + slice.count <= weight[0],
                 "rows {} + {} of {}", slice.first, slice.count, to_string(weight));
  Shape shape = weight;
  shape.set(0, slice.count);
  return shape;
}

ElementRange elements_of(const RowSlice& slice, const Shape& weight) {
  const int64_t row = row_elems(weight);
  return {slice.first * row, (slice.first + slice.count) * row};
}

Cost slice_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const Shape& weight = inputs[0]->shape;
  const ElementRange slice = elements_of(slice_of(attributes), weight);
  Cost cost;
  for (const TypeList types : {inputs, outputs}) {
    for (const ValueType* type : types) {
      if (!type) continue;
      const int64_t elems = type->shape == weight ? slice.end - slice.begin : type->shape.elems();
      cost.bytes += static_cast<double>(elems * size_of(type->dtype));
    }
  }
  return cost;
}

void copy_other_rows(const TensorView& from, const TensorView& to, const ElementRange& slice, ThreadPool& threads) {
  const auto part = [](const TensorView& view, int64_t begin, int64_t end) {
    return TensorView{view.as<std::byte>() + begin * size_of(view.dtype), view.dtype, {end - begin}};
  };
  copy_tensor(part(from, 0, slice.begin), part(to, 0, slice.begin), threads);
  copy_tensor(part(from, slice.end, to.elems()), part(to, slice.end, to.elems()), threads);
}

}  // namespace spillway::ops
