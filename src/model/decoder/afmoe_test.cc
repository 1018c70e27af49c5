// Reading the config.json of Arcee's Trinity, and the layers that it makes.
#include <doctest/doctest.h>

#include <cmath>
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

namespace {

json small_afmoe(const json& changes = json::object()) {
  json config = {{"num_hidden_layers", 5},      {"num_experts", 8},      {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 12}, {"num_dense_layers", 2}, {"head_dim", 8}};
  config.update(changes);
  return config;
}

}  // namespace

TEST_CASE(
    "Trinity's layers with a window are the ones that are rotated, and a projection of their own gates all heads") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "afmoe");
  CHECK(config.architecture == &architectures::kAfmoe);
  CHECK(windows_of(config) == std::vector<int64_t>{6, 0, 6});
  CHECK(rotated_of(config) == std::vector<bool>{true, false, true});
  CHECK(config.embedding_scale == doctest::Approx(std::sqrt(32.0)));
  CHECK(!config.layers[0].mixture);
  REQUIRE(config.layers[1].mixture);
  CHECK(config.layers[1].mixture->route.scale == 1.7);
  CHECK(config.layers[1].mixture->shared_inner == 2 * 12);
  CHECK(count_ops(graph_of_tiny("afmoe"), "rope") == 2 * 2);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.1.self_attn.q_proj.weight")->shape == Shape{48, 32});
  CHECK(table.find("model.layers.1.self_attn.gate_proj.weight")->shape == Shape{48, 32});
  CHECK(table.find("model.layers.1.mlp.expert_bias")->role == ParameterRole::kBuffer);
  const Parameter& router = *table.find("model.layers.1.mlp.router.gate.weight");
  CHECK(router.role == ParameterRole::kLinear);  // as PEFT and bitsandbytes see it
  CHECK(router.takes_adapter);
  CHECK(router.fresh == FreshContent::kZeros);
}

TEST_CASE("what a config of Trinity leaves out gets the defaults of transformers") {
  json minimal = json::parse(config_text(small_afmoe(), "AfmoeForCausalLM"));
  for (const char* key : {"head_dim", "num_dense_layers", "num_key_value_heads", "max_position_embeddings"})
    minimal.erase(key);
  const DecoderConfig config = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(windows_of(config) == std::vector<int64_t>{1024, 1024, 1024, 0, 1024});
  CHECK(config.layers[0].attention.head_dim == 128);
  CHECK(config.layers[0].attention.kv_heads == 4);
  CHECK(!config.layers[0].mixture);
  REQUIRE(config.layers[1].mixture);
  CHECK(config.layers[1].mixture->shared_inner == 2 * 12);
  CHECK(config.layers[1].mixture->route.scale == 1);
  CHECK(config.embedding_scale == 1);
  CHECK(config.max_position_embeddings == 16384);
  const DecoderConfig dense = parse(small_afmoe({{"attention_bias", true}}), "AfmoeForCausalLM");
  CHECK(dense.layers[0].attention.output_bias);
  const ParameterTable table = parameters_of(*make_decoder(dense), {});
  CHECK(table.find("model.layers.0.self_attn.q_proj.bias") != nullptr);
  CHECK(table.find("model.layers.0.self_attn.gate_proj.bias") == nullptr);
}

TEST_CASE("routers of Trinity that transformers does not compute are refused by the key") {
  const auto error_of = [](const json& changes) { return config_error(small_afmoe(changes), "AfmoeForCausalLM"); };
  CHECK(error_of(json::object()).empty());
  CHECK(error_of({{"score_func", "softmax"}}).find("score_func] expected sigmoid") != std::string::npos);
  CHECK(error_of({{"route_norm", false}}).find("route_norm] expected true") != std::string::npos);
  CHECK(error_of({{"n_group", 2}}).find("n_group] expected 1") != std::string::npos);
  CHECK(error_of({{"sliding_window", nullptr}}).find("expected sliding_window beside") != std::string::npos);
}
