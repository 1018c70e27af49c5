// Reading Arcee's config.json.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("Arcee has no gate, and its activation is the square of relu") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "arcee");
  CHECK(config.architecture == &architectures::kArcee);
  CHECK(config.layers[0].feed_forward.bias);
  CHECK(!config.layers[0].attention.qkv_bias);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.mlp.gate_proj.weight") == nullptr);
  CHECK(table.find("model.layers.0.mlp.up_proj.bias")->shape == Shape{48});
  CHECK(count_ops(graph_of_tiny("arcee"), "activation") == 2);
}

TEST_CASE("what a config of Arcee leaves out gets the defaults of transformers, and another activation is refused") {
  json minimal = json::parse(config_text(json::object(), "ArceeForCausalLM"));
  CHECK(config_error(minimal.dump()).find("expected hidden_act relu2, got 'silu'") != std::string::npos);
  for (const char* key : {"hidden_act", "num_key_value_heads", "rms_norm_eps", "max_position_embeddings"})
    minimal.erase(key);
  const DecoderConfig config = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(config.layers[0].attention.kv_heads == 4);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.max_position_embeddings == 4096);
  CHECK(!config.layers[0].feed_forward.bias);
}
