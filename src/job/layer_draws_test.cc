#include "job/layer_draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/index.h"

namespace spillway::train {

TEST_CASE("a run draws layers before steps 0 and 1 and before each multiple of the interval, as axolotl's callback") {
  const LayerDraws draws(7, 30, 2, 20);
  std::set<int64_t> due;
  for (int64_t step = 0; step < 61; ++step)
    if (draws.is_due(step)) due.insert(step);
  CHECK(due == std::set<int64_t>{0, 1, 20, 40, 60});
  const LayerDraws each(7, 30, 2, 1);
  CHECK((each.is_due(0) && each.is_due(1) && each.is_due(2) && each.is_due(3)));
}

TEST_CASE(
    "a draw is a function of seed and step, stays until the next one, and knows how often its layers had a turn") {
  constexpr int64_t kLayers = 6, kDrawn = 2, kInterval = 4;
  const LayerDraws draws(3, kLayers, kDrawn, kInterval);
  std::vector<int64_t> trained(kLayers, 0), last;
  int64_t changes = 0;
  for (int64_t step = 0; step < 400; ++step) {
    CAPTURE(step);
    const LayerDraw draw = draws.at(step);
    REQUIRE(std::ssize(draw.numbers) == kDrawn);
    CHECK(draw.first_step == step);
    CHECK(std::is_sorted(draw.numbers.begin(), draw.numbers.end()));
    CHECK(std::set(draw.numbers.begin(), draw.numbers.end()).size() == kDrawn);
    if (draw.numbers != last) {
      CHECK(draws.is_due(step));
      ++changes;
    }
    last = draw.numbers;
    for (size_t i = 0; i < draw.numbers.size(); ++i) {
      CHECK(draw.steps_before[i] == nth(trained, draw.numbers[i]));
      ++nth(trained, draw.numbers[i]);
    }
    CHECK(LayerDraws(3, kLayers, kDrawn, kInterval).at(step).numbers == draw.numbers);
  }
  CHECK(changes > 80);  // of 101 draws: one in 15 is as the one before
  // All layers have their turns: 133 steps of 400 are expected of each, with a deviation of 19 for draws of 4 steps.
  for (const int64_t steps : trained) CHECK(std::abs(steps - 133) < 4 * 19);
  const LayerDraws of_other_seed(4, kLayers, kDrawn, kInterval);
  int64_t alike = 0;
  for (int64_t step = 0; step < 400; step += kInterval)
    alike += of_other_seed.at(step).numbers == draws.at(step).numbers;
  CHECK(alike < 25);  // of 100, where one in 15 is expected
}

TEST_CASE("all layers of a model may be drawn, and one of one") {
  CHECK(LayerDraws(1, 3, 3, 5).at(12).numbers == std::vector<int64_t>{0, 1, 2});
  CHECK(LayerDraws(1, 1, 1, 5).at(12).steps_before == std::vector<int64_t>{12});
}

TEST_CASE("the list of a model's layers is the module of its first numbered child, and says whose weight is trained") {
  ParameterTable parameters;
  for (const char* name : {"model.embed_tokens.weight", "model.layers.0.mlp.experts.7.up_proj.weight",
                           "model.layers.11.input_layernorm.weight", "model.norm.weight"})
    parameters.add({.name = name});
  CHECK(layer_list(parameters) == "model.layers");
  CHECK(count_layers(parameters, "model.layers") == 12);
  const DrawnLayers drawn{.list = "model.layers", .numbers = {4, 11}};
  CHECK(drawn.place_of("model.layers.11.input_layernorm.weight") == 1);
  CHECK(drawn.place_of("model.layers.4.x") == 0);
  CHECK(drawn.layer_of("model.layers.1.x") == 1);
  CHECK_FALSE(drawn.place_of("model.layers.1.x"));
  CHECK_FALSE(drawn.layer_of("model.norm.weight"));
  CHECK_FALSE(drawn.layer_of("model.layers_of_another.1.x"));
}

}  // namespace spillway::train
