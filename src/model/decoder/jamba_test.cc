// Reading the configs of Jamba, whose layers are told by their numbers, and what follows for states and adapters.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/verify.h"
#include "model/adapter.h"
#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

json jamba(const json& changes) {
  json all = {{"num_hidden_layers", 8}, {"num_experts", 4}, {"num_experts_per_tok", 2}};
  all.update(changes);
  return all;
}

DecoderConfig jamba_with(const json& changes = json::object()) { return parse(jamba(changes), "JambaForCausalLM"); }
std::string jamba_error(const json& changes) { return config_error(jamba(changes), "JambaForCausalLM"); }

// Two letters a layer: S is a scan and A attention, - a feed-forward and E a mixture.
std::string jamba_parts(const DecoderConfig& config) {
  std::string result;
  for (const DecoderLayer& layer : config.layers) {
    if (layer.has_attention) result += 'A';
    if (layer.scan) result += 'S';
    if (layer.has_feed_forward) result += '-';
    if (layer.mixture) result += 'E';
  }
  return result;
}

}  // namespace

TEST_CASE("Jamba's layers attend and have mixtures by periods and offsets, as transformers counts them") {
  CHECK(jamba_parts(jamba_with()) == "S-SES-SEA-SES-SE");
  CHECK(jamba_parts(jamba_with({{"attn_layer_period", 3}, {"attn_layer_offset", 1}})) == "S-AES-SEA-SES-AE");
  CHECK(jamba_parts(jamba_with({{"expert_layer_period", 4}, {"expert_layer_offset", 0}})) == "SES-S-S-AES-S-S-");
  CHECK(jamba_parts(jamba_with({{"num_experts", 1}, {"num_experts_per_tok", 1}})) == "S-S-S-S-A-S-S-S-");
  CHECK(jamba_error({{"attn_layer_offset", 8}})
            .find("expected attn_layer_offset below attn_layer_period = 8, got 8; check both numbers") !=
        std::string::npos);
  CHECK(jamba_error({{"expert_layer_period", 1}}).find("expert_layer_offset below") != std::string::npos);
}

TEST_CASE("Jamba's scans have the sizes that its config names or that follow from its width") {
  const SelectiveScan usual = *jamba_with().layers[0].scan;
  const int64_t hidden = jamba_with().hidden_size;
  CHECK(usual.channels == 2 * hidden);
  CHECK(usual.state == 16);
  CHECK(usual.taps == 4);
  CHECK(usual.step_rank == (hidden + 15) / 16);
  CHECK(usual.conv_bias);
  CHECK_FALSE(usual.bias);
  CHECK(jamba_with({{"mamba_dt_rank", "auto"}}).layers[0].scan->step_rank == usual.step_rank);
  const SelectiveScan named = *jamba_with({{"mamba_d_state", 6},
                                           {"mamba_d_conv", 3},
                                           {"mamba_expand", 3},
                                           {"mamba_dt_rank", 5},
                                           {"mamba_conv_bias", false},
                                           {"mamba_proj_bias", true}})
                                   .layers[0]
                                   .scan;
  CHECK(named.state == 6);
  CHECK(named.taps == 3);
  CHECK(named.channels == 3 * hidden);
  CHECK(named.step_rank == 5);
  CHECK_FALSE(named.conv_bias);
  CHECK(named.bias);
}

TEST_CASE("Jamba's experts weigh as the softmax over all of them says") {
  const Mixture mixture = *jamba_with().layers[1].mixture;
  CHECK(mixture.route.score == ops::RouteScore::kSoftmax);
  CHECK_FALSE(mixture.route.normalises);
  CHECK(jamba_with({{"output_router_logits", true}}).router_aux_loss_coef == 0.001);
}

TEST_CASE("no head of Jamba turns, and generation keeps a row of each scan for each sequence, in f32") {
  const ModelPtr model = read_model(kGoldenModels / "jamba");
  for (const DecoderLayer& layer : model->text()->layers()) CHECK_FALSE(layer.attention.rope);
  for (const CacheUse use : {CacheUse::kDecode, CacheUse::kPrompt}) {
    Graph graph;
    Builder builder(graph);
    (void)model->text()->build_cached(builder, {.dtype = DType::kBF16, .tokens = 8, .max_sequences = 5}, 64, use);
    CHECK(verify(graph).empty());
    const auto type = [&](const char* name) { return graph.value(graph.find(name)).type; };
    CHECK(type("cache.layers.0.convolution") == ValueType{DType::kBF16, {5, 2 * 64}});
    CHECK(type("cache.layers.0.scan") == ValueType{DType::kF32, {5, 6 * 64}});
    CHECK(type("cache.layers.1.key") == ValueType{DType::kBF16, {64, 16}});
  }
}

TEST_CASE("an adapter leaves the projection of time steps alone, by which transformers multiplies past it") {
  const ParameterTable table = parameters_of(*read_model(kGoldenModels / "jamba"), {.train_base = true});
  CHECK(lora_targets(table, {}, "lora_target_modules").size() == 3 * 3 + 4 + 2 * 3);  // scans, attention, feed-forwards
  CHECK_THROWS_WITH_AS((void)lora_targets(table, {.target_modules = {"in_proj", "dt_proj"}}, "lora_target_modules"),
                       doctest::Contains("got 'dt_proj', which it refuses or passes over in models of this type"),
                       InputError);
  CHECK(table.find("model.layers.0.mamba.A_log")->decays());
  CHECK(table.find("model.layers.0.mamba.D")->decays());
  CHECK_FALSE(table.find("model.layers.0.mamba.dt_proj.bias")->decays());
  CHECK_FALSE(table.find("model.layers.0.mamba.dt_layernorm.weight")->decays());
}
