// The sums over micro-batches of a graph that trains some layers of a model at a time: persistent values that the
// layers of one draw hand on to those of the next. There are as many as the layers with most of them need, in the same
// order whatever is drawn, so that all draws have them in the same places.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "job/layer_draws.h"
#include "model/parameters.h"

namespace spillway::train {

class GradientPool {
 public:
  // Returns the shapes of the sums that a weight needs.
  using ShapesOf = std::function<std::vector<Shape>(const Parameter&)>;
  // Declares a sum of that shape, f32, in a group of that part, and returns its value.
  using Declare = std::function<ValueId(std::string name, const Shape& shape, const std::string& part)>;

  // Declares the sums for `drawn`. With `only_used`, as many as they need themselves: those of a graph of a whole step,
  // in which no sum is persistent.
  GradientPool(const ParameterTable& parameters, const DrawnLayers& drawn, bool only_used, const ShapesOf& shapes_of,
               const Declare& declare);

  // Returns a sum of this shape that no other weight has. REQUIRES: it is for a weight of the drawn layers.
  [[nodiscard]] ValueId take(const Shape& shape);
  [[nodiscard]] const std::vector<ValueId>& values() const { return values_; }

 private:
  using ShapeKey = std::vector<int64_t>;

  std::vector<ValueId> values_;
  std::map<ShapeKey, std::vector<ValueId>> free_;  // the next one last
};

}  // namespace spillway::train
