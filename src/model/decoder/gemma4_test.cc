// Reading Gemma 4's config.json.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

// Keys of a small model without what this program does not compute.
json small_gemma4(const json& changes = json::object()) {
  json keys = {{"model_type", "gemma4_text"}, {"hidden_act", nullptr},    {"head_dim", 16},
               {"num_hidden_layers", 7},      {"num_key_value_heads", 2}, {"hidden_size_per_layer_input", 0},
               {"rope_theta", nullptr}};
  keys.update(changes);
  return keys;
}

DecoderConfig gemma4(const json& changes = json::object()) {
  return parse_decoder_config(config_text(small_gemma4(changes), "Gemma4ForCausalLM"), "config.json");
}

std::string gemma4_error(const json& changes) { return config_error(small_gemma4(changes), "Gemma4ForCausalLM"); }

}  // namespace

TEST_CASE("Gemma 4's layers without a window have heads of their own, whose keys are their values") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "gemma4");
  CHECK(config.architecture == &architectures::kGemma4);
  CHECK(config.embedding_scale == std::sqrt(32.0));
  CHECK(config.logit_soft_cap == 8);
  const Attention &full = config.layers[0].attention, &windowed = config.layers[1].attention;
  CHECK(full.head_dim == 16);
  CHECK(full.kv_heads == 1);
  CHECK(full.values_are_keys);
  CHECK(full.scale == 1);
  CHECK(windowed.head_dim == 12);
  CHECK(windowed.kv_heads == 2);
  CHECK(windowed.window == 6);
  CHECK(!windowed.values_are_keys);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.self_attn.v_proj.weight") == nullptr);
  CHECK(table.find("model.layers.1.self_attn.v_proj.weight")->shape == Shape{24, 32});
  CHECK(table.find("model.layers.0.self_attn.k_norm.weight")->shape == Shape{16});
  const Parameter& scalar = *table.find("model.layers.2.layer_scalar");
  CHECK(scalar.role == ParameterRole::kBuffer);
  CHECK(scalar.is_of_model());
}

TEST_CASE("what a config of Gemma 4 leaves out gets the defaults of transformers") {
  json minimal = json::parse(config_text(small_gemma4(), "Gemma4ForCausalLM"));
  for (const char* key : {"head_dim", "max_position_embeddings"}) minimal.erase(key);
  const DecoderConfig config = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(config.max_position_embeddings == 131072);
  CHECK(config.tie_word_embeddings);
  for (size_t layer = 0; layer < 7; ++layer) {
    CAPTURE(layer);
    const Attention& attention = config.layers[layer].attention;
    const bool sees_all = layer >= 5;  // the sixth by the pattern, the last in any case
    CHECK(attention.window == (sees_all ? 0 : 512));
    CHECK(attention.head_dim == (sees_all ? 512 : 256));
    CHECK(attention.rope == (sees_all ? 0 : 1));
  }
  REQUIRE(config.ropes.size() == 2);
  CHECK(config.ropes[0].type == RopeType::kProportional);
  CHECK(config.ropes[0].partial_rotary_factor == 0.25);
  CHECK(config.ropes[0].theta == 1e6);
  CHECK(config.ropes[1].type == RopeType::kDefault);
  CHECK(config.ropes[1].theta == 1e4);
  const DecoderConfig unified = read_decoder_config(kGoldenModels / "gemma4_unified");
  CHECK(unified.architecture == &architectures::kGemma4Unified);
  CHECK(unified.layers[1].attention.head_dim == 16);
  CHECK(!unified.layers[1].attention.values_are_keys);
}

TEST_CASE("per_layer_config counts more than the keys that it has replaced") {
  const json own = {{"5", {{"head_dim", 32}, {"num_key_value_heads", 1}}}, {"6", {{"head_dim", 32}}}};
  const DecoderConfig config = gemma4({{"per_layer_config", own}, {"global_head_dim", 64}});
  CHECK(config.layers[5].attention.head_dim == 32);
  CHECK(config.layers[5].attention.kv_heads == 1);
  CHECK(config.layers[6].attention.kv_heads == 2);
  CHECK(config.layers[0].attention.head_dim == 16);
}

TEST_CASE("Gemma 4 that computes something else is refused by its key") {
  const auto names = [](const json& changes, std::string_view key) {
    CAPTURE(key);
    CHECK(gemma4_error(changes).find(key) != std::string::npos);
  };
  names({{"use_bidirectional_attention", "all"}}, "use_bidirectional_attention");
  CHECK(gemma4_error({{"use_bidirectional_attention", "vision"}}).empty());
  names({{"num_kv_shared_layers", 2}}, "num_kv_shared_layers");
  names({{"hidden_size_per_layer_input", nullptr}}, "hidden_size_per_layer_input");
  names({{"enable_moe_block", true}}, "enable_moe_block");
  names({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}, "rope_scaling");
  names({{"per_layer_config", {{"7", {{"head_dim", 32}}}}}}, "per_layer_config");
  names({{"per_layer_config", {{"5", {{"intermediate_size", 32}}}}}}, "intermediate_size");
  names({{"per_layer_config", {{"5", {{"num_key_value_heads", 3}}}}}}, "num_key_value_heads");
  names({{"per_layer_config", {{"5", {{"head_dim", 32}}}}}}, "heads of one size");
}
