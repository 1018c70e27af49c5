// Reading SmolLM3's config.json.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("SmolLM3 rotates the layers that no_rope_layers has a 1 for, or all but every fourth") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "smollm3");
  CHECK(config.architecture == &architectures::kSmolLm3);
  CHECK(rotated_of(config) == std::vector<bool>{true, false});
  CHECK(windows_of(config) == std::vector<int64_t>{0, 6});
  const auto smollm3 = [](const json& changes) { return parse(changes, "SmolLM3ForCausalLM"); };
  const DecoderConfig plain = smollm3({{"num_hidden_layers", 5}, {"sliding_window", 6}});
  CHECK(rotated_of(plain) == std::vector<bool>{true, true, true, false, true});
  CHECK(windows_of(plain) == std::vector<int64_t>(5, 0));
  CHECK(plain.ropes[0].theta == 2e6);
  CHECK(plain.tie_word_embeddings);
  CHECK(rotated_of(smollm3({{"no_rope_layers", {0, 1, 0, 1}}, {"no_rope_layer_interval", 2}})) ==
        std::vector<bool>{false, true, false});
}

TEST_CASE("SmolLM3 has windows where it rotates nothing, or where layer_types says so") {
  const auto windows = [](json changes) {
    changes.update({{"use_sliding_window", true}, {"no_rope_layer_interval", 2}});
    return windows_of(parse(changes, "SmolLM3ForCausalLM"));
  };
  CHECK(windows({{"sliding_window", 7}}) == std::vector<int64_t>{0, 7, 0});
  CHECK(windows(json::object()) == std::vector<int64_t>{0, 0, 0});
  const json types = {"sliding_attention", "full_attention", "full_attention"};
  CHECK(windows({{"sliding_window", 7}, {"layer_types", types}}) == std::vector<int64_t>{7, 0, 0});
  CHECK(config_error({{"sliding_window", 7}, {"layer_types", types}}, "SmolLM3ForCausalLM")
            .find("expected use_sliding_window and sliding_window beside a layer") != std::string::npos);
}

TEST_CASE("SmolLM3's lists that are too short or hold something else are refused") {
  CHECK(config_error({{"no_rope_layers", {1, 0}}}, "SmolLM3ForCausalLM").find("num_hidden_layers = 3 layers, got 2") !=
        std::string::npos);
  CHECK(config_error({{"no_rope_layers", {1, 0, 2}}}, "SmolLM3ForCausalLM").find("no_rope_layers") !=
        std::string::npos);
  CHECK(config_error({{"no_rope_layer_interval", 0}}, "SmolLM3ForCausalLM").find("got 0") != std::string::npos);
}

TEST_CASE("a layer without rope reads no frequencies, and a model without any has none") {
  CHECK(count_ops(graph_of_tiny("smollm3"), "rope") == 2);
  DecoderConfig config = read_decoder_config(kGoldenModels / "smollm3");
  for (DecoderLayer& layer : config.layers) layer.attention.rope.reset();
  CHECK(graph_of_decoder(config).find("rope.inv_freq") == kNone);
}
