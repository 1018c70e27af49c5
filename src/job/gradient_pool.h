// The sums over micro-batches of a graph that trains some layers of a model at a time: persistent values that the
// layers of one draw hand on to those of the next. There are as many as the layers with most of them need, in the same
// order whatever is drawn, so that all draws have them in the same places.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "job/layer_draws.h"
#include "model/parameters.h"

namespace spillway::train {

class GradientPool {
 public:
  // Appends the sums for `drawn` to the graph of `builder`, f32, each with the shape of a weight. With `only_used`, as
  // many as they need themselves: those of a graph of a whole step, in which no sum is persistent.
  GradientPool(Builder& builder, const ParameterTable& parameters, const DrawnLayers& drawn, bool only_used);

  // Returns a sum of this shape that no other weight has. REQUIRES: it is for a weight of the drawn layers.
  [[nodiscard]] ValueId take(const Shape& shape);
  [[nodiscard]] const std::vector<ValueId>& values() const { return values_; }

 private:
  using ShapeKey = std::vector<int64_t>;

  std::vector<ValueId> values_;
  std::map<ShapeKey, std::vector<ValueId>> free_;  // the next one last
};

}  // namespace spillway::train
