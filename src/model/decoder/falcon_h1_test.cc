// Reading the configs of Falcon-H1 and Bamba, and the layers that follow.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "graph/verify.h"
#include "io/file.h"
#include "model/adapter_targets.h"
#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

json falcon(const json& changes) {
  json all = {{"model_type", "falcon_h1"}, {"mamba_d_ssm", 64}, {"mamba_n_heads", 8}, {"mamba_d_state", 16}};
  all.update(changes);
  return all;
}

DecoderConfig falcon_with(const json& changes = json::object()) {
  return parse(falcon(changes), "FalconH1ForCausalLM");
}
std::string falcon_error(const json& changes) { return config_error(falcon(changes), "FalconH1ForCausalLM"); }

}  // namespace

TEST_CASE("each layer of Falcon-H1 has attention and a state space, with states of both") {
  const DecoderConfig config = falcon_with({{"mamba_n_groups", 2}});
  for (const DecoderLayer& layer : config.layers) {
    CHECK(layer.has_attention);
    REQUIRE(layer.delta);
    CHECK(layer.delta->heads.value_dim == 8);
    CHECK(layer.delta->norm == StateNorm::kAbsent);
    CHECK(layer.attention.scale == doctest::Approx(1 / std::sqrt(8.0)));
    const std::vector<LayerState> states = layer.states();
    REQUIRE(states.size() == 4);
    CHECK(states[0].rows == StateRows::kPerToken);
    CHECK(states[2].rows == StateRows::kPerSequence);
    CHECK(layer.state(kMatrixState).width == 16 * 64);
  }
  const ModelPtr model = make_decoder(config);
  for (const CacheUse use : {CacheUse::kDecode, CacheUse::kPrompt}) {
    Graph graph;
    Builder builder(graph);
    (void)model->text()->build_cached(builder, {.tokens = 8, .max_sequences = 5}, 64, use);
    CHECK(verify(graph).empty());
    CHECK(graph.find("cache.layers.2.key") != kNone);
    CHECK(graph.find("cache.layers.2.delta") != kNone);
  }
}

TEST_CASE("Falcon-H1's multipliers are factors of the parts that they are named after") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "falcon_h1");
  const DecoderLayer& layer = config.layers[1];
  CHECK(config.embedding_scale == 3);
  CHECK(config.logit_scale == 0.6);
  CHECK(layer.attention.scale == doctest::Approx(0.7 / std::sqrt(8.0)));
  CHECK(layer.attention.input_scale == 1.3);
  CHECK(layer.attention.output_scale == 0.9);
  CHECK(layer.delta->scales.input == 1.2);
  CHECK(layer.delta->scales.output == 0.7);
  CHECK(layer.delta->scales.gate == 0.7);
  CHECK(layer.delta->scales.values == 1.1);
  CHECK(layer.delta->scales.steps == 0.6);
  CHECK(layer.feed_forward.gate_scale == 0.9);
  CHECK(layer.feed_forward.output_scale == 1.4);
  CHECK(layer.delta->norm == StateNorm::kBeforeGate);
  CHECK(falcon_error({{"ssm_multipliers", {1.0, 2.0}}}) ==
        "[config.json] expected ssm_multipliers to list 5 numbers, got 2; correct the list");
}

TEST_CASE("the width and the biases of Falcon-H1's state spaces have keys of their own") {
  CHECK(falcon_with({{"mamba_d_ssm", nullptr}}).layers[0].delta->value_width() == 64);  // mamba_expand x hidden_size
  CHECK(falcon_with({{"mamba_d_ssm", 32}}).layers[0].delta->heads.value_dim == 4);
  CHECK(falcon_with({{"projectors_bias", true}}).layers[0].delta->output_bias);
  CHECK_FALSE(falcon_with({{"projectors_bias", true}}).layers[0].delta->bias);
  CHECK(falcon_with({{"mamba_proj_bias", true}}).layers[0].delta->bias);
  CHECK(falcon_with({{"mamba_rms_norm", true}, {"mamba_norm_before_gate", false}}).layers[0].delta->norm ==
        StateNorm::kBehindGate);
  CHECK(falcon_error({{"mamba_d_head", 5}}) ==
        "[config.json] expected mamba_n_heads x mamba_d_head to be mamba_d_ssm, 64, got 40; check the numbers");
  const StateSteps steps = falcon_with({{"time_step_limit", {0.5, 2.0}}}).layers[0].delta->steps;
  CHECK(steps.least == 0.5);
  CHECK(steps.most == 2);
  CHECK(falcon_error({{"time_step_limit", {2.0, 0.5}}}).find("the first below the second") != std::string::npos);
}

// As json.dump() writes it, which transformers 4 has used.
TEST_CASE("a folder whose config.json has Infinity as Python writes it is read") {
  const TemporaryFolder folder;
  std::string text = config_text(falcon({{"time_step_limit", {0.0, 123}}}), "FalconH1ForCausalLM");
  text.replace(text.find("123"), 3, "Infinity");
  write_file(folder.path() / "config.json", text);
  const ModelPtr model = read_model(folder.path());
  REQUIRE(model->text() != nullptr);
  CHECK(std::isinf(model->text()->layers()[0].delta->steps.most));
}

TEST_CASE("Falcon-H1's projections behind state spaces take no adapter, and Bamba's do, as in PEFT") {
  const auto targets = [](const char* name) {
    return lora_targets(parameters_of(*read_model(kGoldenModels / name)), {}, "lora_target_modules");
  };
  CHECK(targets("falcon_h1").size() == 2 * (4 + 1 + 3));
  CHECK(targets("bamba").size() == 4 + 2 * 2 + 3 * 3);
}

TEST_CASE("Bamba attends in the layers that attn_layer_indices list, with half of each head rotated") {
  const auto bamba = [](json changes) {
    changes.update({{"model_type", "bamba"}, {"mamba_n_heads", 8}, {"mamba_d_state", 16}});
    return parse(changes, "BambaForCausalLM");
  };
  const auto attends = [](const DecoderConfig& config) {
    std::vector<bool> result;
    for (const DecoderLayer& layer : config.layers) result.push_back(layer.has_attention);
    return result;
  };
  CHECK(attends(bamba({{"attn_layer_indices", {0, 2}}})) == std::vector<bool>{true, false, true});
  CHECK(attends(bamba(json::object())) == std::vector<bool>(3, false));
  CHECK(attends(read_decoder_config(kGoldenModels / "bamba")) == std::vector<bool>{false, true, false});
  CHECK(bamba({{"attn_layer_indices", {0}}}).ropes[0].partial_rotary_factor == 0.5);
  const auto refused = [](json changes) {
    changes.update({{"model_type", "bamba"}, {"mamba_n_heads", 8}});
    return config_error(changes, "BambaForCausalLM");
  };
  CHECK(refused({{"z_loss_coefficient", 0.1}}).find("expected z_loss_coefficient 0, got 0.1") != std::string::npos);
  CHECK(refused({{"attn_layer_indices", {3}}}).find("attn_layer_indices") != std::string::npos);
  CHECK(refused({{"partial_rotary_factor", 0.25}}).find("expected 0.5, got 0.25") != std::string::npos);
}
