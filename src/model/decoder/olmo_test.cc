// Reading the configs of OLMo, and the layers that follow.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("OLMo 2 normalises queries and keys of all heads together, and what each branch gives") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "olmo2");
  CHECK(config.architecture == &architectures::kOlmo2);
  CHECK(count_ops(graph_of_tiny("olmo2"), "rms_norm") == 2 * 4 + 1);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.self_attn.q_norm.weight")->shape == Shape{4 * 8});
  CHECK(table.find("model.layers.1.self_attn.k_norm.weight")->shape == Shape{2 * 8});
  CHECK(table.find("model.layers.0.input_layernorm.weight") == nullptr);
  for (const Parameter& p : table) CHECK(p.decays() == !p.name.ends_with("norm.weight"));
}

TEST_CASE("what a config of OLMo 2 leaves out gets the defaults of transformers") {
  json minimal = json::parse(config_text(json::object(), "Olmo2ForCausalLM"));
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "max_position_embeddings"}) minimal.erase(key);
  const DecoderConfig config = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(config.layers[0].attention.kv_heads == 4);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.max_position_embeddings == 2048);
  CHECK(config.ropes[0].theta == 1e4);
  CHECK(!config.tie_word_embeddings);
  CHECK(!config.layers[0].attention.output_bias);
}

TEST_CASE("OLMo 3 has a window in three of four layers, whose rope rope_scaling does not stretch") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "olmo3");
  CHECK(config.architecture == &architectures::kOlmo3);
  CHECK(windows_of(config) == std::vector<int64_t>{6, 0, 6});
  CHECK(config.ropes[0].type == RopeType::kLinear);
  REQUIRE(config.ropes.size() == 2);
  CHECK(config.ropes[1].type == RopeType::kDefault);
  CHECK(config.ropes[1].theta == 1e4);
  const json stretched = {
      {"num_hidden_layers", 5}, {"rope_theta", 1e4}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}};
  const DecoderConfig old = parse(stretched, "Olmo3ForCausalLM");
  CHECK(windows_of(old) == std::vector<int64_t>{4096, 4096, 4096, 0, 4096});
  CHECK(old.ropes[0].factor == 4);
  CHECK(old.ropes[0].theta == 1e4);
  // As transformers 5 has it.
  CHECK(old.ropes[1].theta == 5e5);
  CHECK(old.ropes[1].type == RopeType::kDefault);
}
