// Reading the configs of Nemotron-H, whose layers have one part each, and what follows for weights and adapters.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/verify.h"
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

json nemotron(const json& changes) {
  json all = {{"model_type", "nemotron_h"}, {"mlp_hidden_act", "relu2"},   {"hybrid_override_pattern", "M-E*"},
              {"n_routed_experts", 8},      {"moe_intermediate_size", 12}, {"num_experts_per_tok", 2},
              {"mamba_num_heads", 4},       {"mamba_head_dim", 8},         {"n_groups", 2},
              {"ssm_state_size", 12},       {"num_hidden_layers", nullptr}};
  all.update(changes);
  return all;
}

DecoderConfig nemotron_with(const json& changes = json::object()) {
  return parse(nemotron(changes), "NemotronHForCausalLM");
}
std::string nemotron_error(const json& changes) { return config_error(nemotron(changes), "NemotronHForCausalLM"); }

// The parts of layers by the letters of the pattern.
std::string parts_of(const DecoderConfig& config) {
  std::string result;
  for (const DecoderLayer& layer : config.layers) {
    if (layer.has_attention) result += '*';
    if (layer.delta) result += 'M';
    if (layer.has_feed_forward) result += '-';
    if (layer.mixture) result += 'E';
  }
  return result;
}

}  // namespace

TEST_CASE("each layer of Nemotron-H is one part, by a list of types or by a pattern") {
  CHECK(parts_of(nemotron_with()) == "M-E*");
  CHECK(parts_of(nemotron_with({{"hybrid_override_pattern", "*E"}})) == "*E");
  const json types = {"moe", "mamba", "mlp", "attention", "linear_attention", "full_attention"};
  CHECK(parts_of(nemotron_with({{"layers_block_type", types}})) == "EM-*M*");  // the list counts
  CHECK(parts_of(nemotron_with({{"layer_types", types}})) == "EM-*M*");
  CHECK(parts_of(read_decoder_config(kGoldenModels / "nemotron_h")) == "-M*M-");
  CHECK(parts_of(read_decoder_config(kGoldenModels / "nemotron_h_moe")) == "MEM*E");
  CHECK(nemotron_error({{"hybrid_override_pattern", "MX"}}) ==
        "[config.json: hybrid_override_pattern] expected a pattern of M, *, - and E, got \"MX\"; use a model of these "
        "layers");
  CHECK(nemotron_error({{"layers_block_type", {"conv"}}}) ==
        "[config.json] expected layers_block_type of linear_attention, full_attention, mlp and moe, got 'conv'; use a "
        "model of these layers");
  CHECK(nemotron_error({{"hybrid_override_pattern", nullptr}})
            .find("expected layers_block_type or hybrid_override_pattern") != std::string::npos);
}

TEST_CASE("a layer of Nemotron-H without a part that mixes tokens keeps no state") {
  const DecoderConfig config = nemotron_with();
  CHECK(config.layers[0].states().size() == 2);
  CHECK(config.layers[1].states().empty());
  CHECK(config.layers[2].states().empty());
  CHECK(config.layers[3].states().size() == 2);
  CHECK(config.layers[3].states()[0].rows == StateRows::kPerToken);
}

TEST_CASE("Nemotron-H's keys are read as transformers reads them, older names of them first") {
  const GatedDelta space = *nemotron_with().layers[0].delta;
  CHECK(space.heads.value_heads == 4);
  CHECK(space.heads.key_heads == 2);
  CHECK(space.taps == 4);
  CHECK(space.conv_bias);
  CHECK_FALSE(space.bias);
  CHECK(space.steps.least == 0.001);
  const GatedDelta older =
      *nemotron_with({{"mamba_n_groups", 1}, {"mamba_d_conv", 3}, {"mamba_dt_min", 0.5}}).layers[0].delta;
  CHECK(older.heads.key_heads == 1);
  CHECK(older.taps == 3);
  CHECK(older.steps.least == 0.5);
  // Transformers gives biases of projections to state spaces by use_bias, and none to attention.
  const DecoderConfig biased =
      nemotron_with({{"use_bias", true}, {"mamba_proj_bias", false}, {"attention_bias", true}});
  CHECK(biased.layers[0].delta->bias);
  CHECK_FALSE(biased.layers[3].attention.qkv_bias);
  CHECK(nemotron_with().layers[3].attention.head_dim == 128);
  CHECK_FALSE(nemotron_with().layers[3].attention.rope);
  CHECK(nemotron_with({{"moe_latent_size", 16}}).layers[2].mixture->latent == 16);
}

TEST_CASE("what transformers computes in another way in Nemotron-H is refused") {
  CHECK(nemotron_error({{"mamba_hidden_act", "gelu"}}).find("expected silu, got") != std::string::npos);
  CHECK(nemotron_error({{"mlp_hidden_act", "silu"}}).find("expected mlp_hidden_act relu2, got 'silu'") !=
        std::string::npos);
  CHECK(nemotron_error({{"tie_word_embeddings", true}}).find("expected false, got true") != std::string::npos);
  CHECK(nemotron_error({{"n_groups", 3}}).find("expected n_groups to divide mamba_num_heads") != std::string::npos);
  CHECK(nemotron_error({{"attention_dropout", 0.1}}).find("expected attention_dropout 0, got 0.1") !=
        std::string::npos);
  CHECK(nemotron_error({{"n_group", 3}}).find("expected n_group to divide") != std::string::npos);
}

TEST_CASE("the weights of Nemotron-H have the names of its files and of transformers, which PEFT goes by") {
  const ModelPtr model = read_model(kGoldenModels / "nemotron_h_moe");
  const ParameterTable table = parameters_of(*model, {.train_base = true});
  const auto check = [&](const char* name, const char* in_files, const Shape& shape, bool decays) {
    CAPTURE(std::string(name));
    const Parameter* const found = table.find(name);
    REQUIRE(found != nullptr);
    CHECK(found->written_name() == in_files);
    CHECK(found->shape == shape);
    CHECK(found->decays() == decays);
  };
  check("model.embeddings.weight", "backbone.embeddings.weight", {96, 32}, true);
  check("model.layers.0.mixer.D", "backbone.layers.0.mixer.D", {4, 1}, true);
  check("model.layers.1.mixer.experts.7.up_proj.weight", "backbone.layers.1.mixer.experts.7.up_proj.weight", {12, 20},
        true);
  check("model.layers.1.mixer.fc2_latent_proj.weight", "backbone.layers.1.mixer.fc2_latent_proj.weight", {32, 20},
        true);
  check("model.layers.3.mixer.q_proj.weight", "backbone.layers.3.mixer.q_proj.weight", {64, 32}, true);
  check("model.layers.3.norm.weight", "backbone.layers.3.norm.weight", {32}, false);
  // transformers' Trainer does not know it for a norm.
  check("model.norm_f.weight", "backbone.norm_f.weight", {32}, true);
  CHECK(table.find("model.layers.1.mixer.experts.0.up_proj.weight")->tensor.name ==
        "model.layers.1.mixer.experts.up_proj");
  CHECK(table.is_of_other_part("mtp.layers.0.norm.weight"));
  const ParameterTable bf16 = parameters_of(*model, {.dtype = DType::kBF16, .train_base = true});
  CHECK(bf16.find("model.layers.1.mixer.gate.weight")->dtype == DType::kF32);
  CHECK(bf16.find("model.layers.0.mixer.A_log")->dtype == DType::kBF16);
}

TEST_CASE("the projection behind a state space takes no adapter where PEFT refuses one") {
  const ParameterTable table = parameters_of(*read_model(kGoldenModels / "nemotron_h"));
  const std::vector<std::string> all = lora_targets(table, {}, "lora_target_modules");
  CHECK(all.size() == 2 + 2 + 4 + 2);  // feed-forwards, state spaces, attention
  CHECK_THROWS_WITH_AS(
      (void)lora_targets(table, {.target_modules = {"in_proj", "out_proj"}}, "lora_target_modules"),
      "[lora_target_modules] expected layers for which PEFT takes an adapter (up_proj, down_proj, in_proj, q_proj, "
      "k_proj, v_proj, o_proj), got 'out_proj', which it refuses or passes over in models of this type; leave it out",
      InputError);
}

TEST_CASE("models of only one kind of layer of Nemotron-H have graphs of training and of generation") {
  for (const char* pattern : {"M", "-", "E", "*", "M-", "-M"}) {
    CAPTURE(std::string(pattern));
    const ModelPtr model = make_decoder(nemotron_with({{"hybrid_override_pattern", pattern}}));
    Graph training;
    Builder builder(training);
    (void)model->build(builder, {.tokens = 8, .max_sequences = 5});
    CHECK(verify(training).empty());
    for (const CacheUse use : {CacheUse::kDecode, CacheUse::kPrompt}) {
      Graph graph;
      Builder of_generation(graph);
      (void)model->text()->build_cached(of_generation, {.tokens = 8, .max_sequences = 5}, 64, use);
      CHECK(verify(graph).empty());
    }
  }
}
