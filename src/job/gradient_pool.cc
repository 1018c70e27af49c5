#include "job/gradient_pool.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace spillway::train {
namespace {

// By shape: how many weights of it each layer has.
using Counts = std::map<std::vector<int64_t>, std::map<int64_t, int64_t>>;

// Returns the counts in layers, the largest first.
std::vector<int64_t> largest_first(const std::map<int64_t, int64_t>& by_layer) {
  std::vector<int64_t> counts;
  for (const auto& [layer, count] : by_layer) counts.push_back(count);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

}  // namespace

GradientPool::GradientPool(const ParameterTable& parameters, const DrawnLayers& drawn, bool only_used,
                           const ShapesOf& shapes_of, const Declare& declare) {
  Counts counts;
  for (const Parameter& p : parameters) {
    const std::optional<int64_t> layer = drawn.layer_of(p.name);
    if (!p.trained || !layer || (only_used && !drawn.place_of(p.name))) continue;
    for (const Shape& shape : shapes_of(p)) ++counts[shape.dims()][*layer];
  }
  for (size_t place = 0; place < drawn.numbers.size(); ++place) {
    const std::string group = fmt::format("drawn.{}", place);
    for (const auto& [dims, by_layer] : counts) {
      const std::vector<int64_t> most = largest_first(by_layer);
      for (int64_t i = 0; place < most.size() && i < most[place]; ++i) {
        const std::string name = fmt::format("gradient.{}.{}.{}", group, fmt::join(dims, "x"), i);
        values_.push_back(declare(name, Shape(dims), group));
        free_[dims].push_back(values_.back());
      }
    }
  }
  for (auto& [dims, values] : free_) std::reverse(values.begin(), values.end());
}

ValueId GradientPool::take(const Shape& shape) {
  std::vector<ValueId>& free = free_[shape.dims()];
  SPILLWAY_CHECK(!free.empty(), "no sum of {} is left", to_string(shape));
  const ValueId value = free.back();
  free.pop_back();
  return value;
}

}  // namespace spillway::train
