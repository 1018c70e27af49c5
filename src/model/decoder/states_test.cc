// Reading the configs of models whose layers have a state (LFM2, Qwen3-Next, Qwen3.5), and the layers that follow.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/verify.h"
#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

std::vector<bool> have_states(const DecoderConfig& config) {
  std::vector<bool> result;
  for (const DecoderLayer& layer : config.layers)
    result.push_back(layer.states().front().rows == StateRows::kPerSequence);
  return result;
}

json with_layers(int64_t layers, const json& changes) {
  json all = {{"num_hidden_layers", layers}};
  all.update(changes);
  return all;
}

DecoderConfig lfm2_with(const json& changes) { return parse(with_layers(2, changes), "Lfm2ForCausalLM"); }
std::string lfm2_error(const json& changes) { return config_error(with_layers(2, changes), "Lfm2ForCausalLM"); }

// Its type is not what the class is called.
json qwen3_5(const json& changes) {
  json all = with_layers(4, changes);
  all["model_type"] = "qwen3_5_text";
  return all;
}

}  // namespace

TEST_CASE("LFM2's layers are convolutions where layer_types say so, or where full_attn_idxs leave them out") {
  CHECK(have_states(read_decoder_config(kGoldenModels / "lfm2")) == std::vector<bool>{true, false, true, true});
  CHECK(have_states(lfm2_with({{"full_attn_idxs", {1}}})) == std::vector<bool>{true, false});
  CHECK(have_states(lfm2_with(json::object())) == std::vector<bool>{false, false});
  CHECK(lfm2_error({{"layer_types", {"conv"}}}).find("got 1") != std::string::npos);
  CHECK(lfm2_error({{"layer_types", {"conv", "recurrent"}}}).find("got 'recurrent'") != std::string::npos);
}

TEST_CASE("LFM2's feed-forwards have the width that transformers makes of its config") {
  const auto inner = [](const json& changes) { return lfm2_with(changes).layers[0].feed_forward.inner; };
  CHECK(inner({{"block_ff_dim", 12288}}) == 8192);
  CHECK(inner({{"block_ff_dim", 6656}, {"block_ffn_dim_multiplier", 1.0}}) == 4608);
  CHECK(inner({{"intermediate_size", 300}, {"block_multiple_of", 16}, {"block_ffn_dim_multiplier", 0.9}}) == 192);
  CHECK(inner({{"intermediate_size", 300}, {"block_ffn_dim_multiplier", nullptr}}) == 200);
  CHECK(inner({{"intermediate_size", 300}, {"block_auto_adjust_ff_dim", false}}) == 300);
  CHECK(lfm2_with({{"tie_embedding", false}, {"tie_word_embeddings", true}}).tie_word_embeddings == false);
}

TEST_CASE("Qwen3.5's layers attend where layer_types say so, or at every fourth or another interval") {
  const auto layers = [](const json& changes) { return have_states(parse(qwen3_5(changes), "Qwen3_5ForCausalLM")); };
  CHECK(layers(json::object()) == std::vector<bool>{true, true, true, false});
  CHECK(layers({{"full_attention_interval", 2}}) == std::vector<bool>{true, false, true, false});
  CHECK(have_states(read_decoder_config(kGoldenModels / "qwen3_5")) == std::vector<bool>{false, true, true});
  CHECK(config_error(qwen3_5({{"linear_num_key_heads", 3}}), "Qwen3_5ForCausalLM").find("got 32 and 3") !=
        std::string::npos);
}

TEST_CASE("convolutions, rates and biases of the delta rule have roles of their own and decay as in transformers") {
  const ParameterTable table = parameters_of(*read_model(kGoldenModels / "qwen3_5"), {.train_base = true});
  const auto check = [&](const char* name, const Shape& shape, bool decays) {
    const Parameter* const found = table.find(name);
    REQUIRE(found != nullptr);
    CHECK(found->shape == shape);
    CHECK(found->decays() == decays);
  };
  check("model.layers.1.linear_attn.conv1d.weight", {88, 3}, true);
  check("model.layers.1.linear_attn.A_log", {4}, true);
  check("model.layers.1.linear_attn.dt_bias", {4}, false);
  check("model.layers.1.linear_attn.norm.weight", {6}, false);
  check("model.layers.0.self_attn.q_proj.weight", {2 * 4 * 16, 32}, true);
  CHECK(table.find("model.layers.1.linear_attn.conv1d.weight")->written_shape() == Shape{88, 1, 3});
}

TEST_CASE("the decoder of generation keeps a row of each state for each sequence, the delta rule's in f32") {
  const ModelPtr model = read_model(kGoldenModels / "qwen3_5");
  for (const CacheUse use : {CacheUse::kDecode, CacheUse::kPrompt}) {
    Graph graph;
    Builder builder(graph);
    const CachedModelGraph decoder =
        model->text()->build_cached(builder, {.dtype = DType::kBF16, .tokens = 8, .max_sequences = 5}, 64, use);
    CHECK(verify(graph).empty());
    CHECK(decoder.slots != kNone);
    const auto type = [&](const char* name) { return graph.value(graph.find(name)).type; };
    CHECK(type("cache.layers.0.key") == ValueType{DType::kBF16, {64, 32}});
    CHECK(type("cache.layers.1.convolution") == ValueType{DType::kBF16, {5, 2 * 88}});
    CHECK(type("cache.layers.2.delta") == ValueType{DType::kF32, {5, 16 * 24}});
  }
}
