// LISA (layerwise importance sampled AdamW; Pan et al. 2024, arXiv 2403.17919) as axolotl has it: of a model's layers a
// few are trained at a time, drawn anew every so many steps. What is outside the layers is always trained.
//
// A draw is a function of the seed and of the step with which it begins, so that a run that is resumed trains the
// layers of an undisturbed one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/parameters.h"

namespace spillway::train {

// The layers that a training graph trains.
struct DrawnLayers {
  std::string list;              // the module whose children they are: "model.layers"
  std::vector<int64_t> numbers;  // of those that are trained, ascending

  // Returns the number of the layer that has the weight; none for one outside the layers.
  [[nodiscard]] std::optional<int64_t> layer_of(std::string_view weight) const;
  // Returns the place in `numbers` of the layer that has the weight; none for a layer that is not trained, and for a
  // weight outside the layers.
  [[nodiscard]] std::optional<size_t> place_of(std::string_view weight) const;
};

// Returns the module that lists the layers of a model with these weights, "model.layers": the one whose numbered
// children have the first weight that any such child has. Empty if there is none.
[[nodiscard]] std::string layer_list(const ParameterTable& parameters);
// Returns "layer 3" or "layers 3, 17".
[[nodiscard]] std::string layers_text(const std::vector<int64_t>& numbers);
// Returns the number of layers in a list.
[[nodiscard]] int64_t count_layers(const ParameterTable& parameters, std::string_view list);

// A draw, and how often its layers were trained before.
struct LayerDraw {
  int64_t first_step = 0;             // that it is for, counted from 0
  std::vector<int64_t> numbers;       // of layers, ascending
  std::vector<int64_t> steps_before;  // by place in `numbers`: the steps before first_step in which it was trained
};

// All draws of a run. Like axolotl's callback, a run draws before steps 0 and 1, and before each multiple of the
// interval.
class LayerDraws {
 public:
  // REQUIRES: 1 <= drawn <= layers, and interval >= 1.
  LayerDraws(int64_t seed, int64_t layers, int64_t drawn, int64_t interval)
      : seed_(static_cast<uint64_t>(seed)), layers_(layers), drawn_(drawn), interval_(interval) {}

  // Returns true if layers are drawn before that step, counted from 0.
  [[nodiscard]] bool is_due(int64_t step) const { return step == 1 || step % interval_ == 0; }
  // Returns the draw whose layers are trained in a step, as from that step on.
  [[nodiscard]] LayerDraw at(int64_t step) const;

 private:
  // Returns the layers that are drawn before a step. REQUIRES: is_due(step).
  [[nodiscard]] std::vector<int64_t> drawn_before(int64_t step) const;

  uint64_t seed_;
  int64_t layers_, drawn_, interval_;
};

}  // namespace spillway::train
