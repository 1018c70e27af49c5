// Reads the configs of mixtures of experts, and checks the layers that they make.
#include "model/decoder/mixture_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/adapter_targets.h"
#include "model/decoder/architecture.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

std::vector<bool> mixtures_of(const DecoderConfig& config) {
  std::vector<bool> result;
  for (const DecoderLayer& layer : config.layers) result.push_back(layer.mixture.has_value());
  return result;
}

// A valid config.json of Qwen3's mixture, with changes.
json with(json changes) {
  json all = {
      {"model_type", "qwen3_moe"}, {"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 20}};
  all.update(changes);
  return all;
}

std::string error_of_changes(const json& changes) { return config_error(with(changes), "Qwen3MoeForCausalLM"); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Returns what opening the weights of a golden model with overrides of its config throws.
std::string weights_error(const char* model, const char* overrides) {
  const std::filesystem::path folder = kGoldenModels / model;
  try {
    (void)open_model_weights(folder, parameters_of(*read_model(folder, overrides)));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("folders of mixtures say which layers have experts, how many, and what they are called") {
  const DecoderConfig qwen3 = read_decoder_config(kGoldenModels / "qwen3_moe");
  CHECK(mixtures_of(qwen3) == std::vector<bool>{true, false, true});
  CHECK(qwen3.layers[0].mixture->experts == 8);
  CHECK(qwen3.layers[0].mixture->route.top_k == 3);
  CHECK(qwen3.layers[0].mixture->inner == 20);
  CHECK(qwen3.layers[0].mixture->route.normalises);
  CHECK(qwen3.layers[1].feed_forward.inner == 48);
  const DecoderConfig qwen2 = read_decoder_config(kGoldenModels / "qwen2_moe");
  CHECK(mixtures_of(qwen2) == std::vector<bool>{false, true});
  CHECK(qwen2.layers[1].mixture->shared_inner == 24);
  CHECK(!qwen2.layers[1].mixture->route.normalises);
  CHECK(windows_of(qwen2) == std::vector<int64_t>{6, 0});
  const DecoderConfig mixtral = read_decoder_config(kGoldenModels / "mixtral");
  CHECK(mixtral.layers[0].mixture->down_proj == "w2");
  CHECK(windows_of(mixtral) == std::vector<int64_t>{6, 6});
  CHECK(!read_decoder_config(kGoldenModels / "olmoe").layers[1].mixture->route.normalises);
  const DecoderConfig glm4 = read_decoder_config(kGoldenModels / "glm4_moe");
  CHECK(mixtures_of(glm4) == std::vector<bool>{false, true, true});
  CHECK(glm4.layers[1].mixture->shared_inner == 12);
  CHECK(!glm4.layers[1].mixture->shared_has_gate);
  CHECK(glm4.layers[1].mixture->route.groups == 4);
  CHECK(glm4.layers[1].attention.head_norm == HeadNorm::kEachHead);
  const Graph graph = graph_of_tiny("qwen3_moe");
  CHECK(count_ops(graph, "grouped_linear") == 2 * 3);
  CHECK(count_ops(graph, "swiglu") == 3);
}

TEST_CASE("numbers of a mixture that cannot be are refused by name") {
  CHECK(error_of_changes({{"num_experts_per_tok", 9}}) ==
        "[config.json] expected num_experts_per_tok of at most num_experts = 8, got 9; check both numbers");
  CHECK(has(error_of_changes({{"num_experts_per_tok", 0}}), "num_experts_per_tok"));
  CHECK(has(error_of_changes({{"num_experts_per_tok", nullptr}}), "num_experts_per_tok"));
  CHECK(has(error_of_changes({{"num_experts", nullptr}}), "num_experts"));
  CHECK(has(error_of_changes({{"num_experts", 1 << 20}}), "num_experts"));
  CHECK(has(error_of_changes({{"mlp_only_layers", {3}}}), "mlp_only_layers"));
  CHECK(has(error_of_changes({{"decoder_sparse_step", 0}}), "decoder_sparse_step"));
  CHECK(has(config_error({{"num_experts", 8}, {"num_experts_per_tok", 2}, {"clip_qkv", 6.0}}, "OlmoeForCausalLM"),
            "expected clip_qkv null, got 6"));
}

TEST_CASE("groups in which experts cannot be chosen are refused by name") {
  const auto error_of = [](json changes) {
    json all = {{"model_type", "glm4_moe"},    {"n_routed_experts", 12}, {"num_experts_per_tok", 4},
                {"moe_intermediate_size", 20}, {"n_group", 4},           {"topk_group", 2},
                {"first_k_dense_replace", 1}};
    all.update(changes);
    return config_error(all, "Glm4MoeForCausalLM");
  };
  CHECK(error_of({{"n_group", 5}}) ==
        "[config.json] expected n_group to divide n_routed_experts = 12, got 5; check both numbers");
  CHECK(has(error_of({{"n_group", 12}}), "expected groups of at least 2 experts, whose scores make a group's, got 1"));
  CHECK(has(error_of({{"topk_group", 5}}), "expected topk_group of at most n_group = 4, got 5"));
  CHECK(
      has(error_of({{"topk_group", 1}}), "expected num_experts_per_tok of at most the 3 experts of topk_group groups"));
  CHECK(has(error_of({{"first_k_dense_replace", 99}}), "first_k_dense_replace"));
  CHECK(has(error_of({{"n_routed_experts", nullptr}}), "n_routed_experts"));
}

TEST_CASE("gpt-oss has fused experts, sinks, and a window in every second layer") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "gpt_oss");
  CHECK(windows_of(config) == std::vector<int64_t>{6, 0, 6});
  CHECK(config.layers[0].mixture->fused->limit == doctest::Approx(0.8));
  CHECK(config.layers[2].attention.has_sinks);
  const ParameterTable parameters = parameters_of(*read_model(kGoldenModels / "gpt_oss"));
  const Parameter* const weight = parameters.find("model.layers.1.mlp.experts.5.gate_up_proj.weight");
  REQUIRE(weight != nullptr);
  CHECK(weight->shape == Shape{32, 40});
  CHECK(weight->slab == 5);
  CHECK(weight->written_name() == "model.layers.1.mlp.experts.gate_up_proj");
  CHECK(weight->written_shape() == Shape{8, 32, 40});
  // The router's shape is compared first.
  CHECK(has(weights_error("gpt_oss", R"({"num_local_experts": 9})"), "model.layers.0.mlp.router.weight"));
  const auto error_of = [](const json& changes) {
    json all = {{"model_type", "gpt_oss"}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}};
    all.update(changes);
    return config_error(all, "GptOssForCausalLM");
  };
  CHECK(has(error_of({{"rope_scaling", nullptr}}), "expected rope_scaling, which gpt-oss stretches its rope by"));
}

TEST_CASE("experts that files stack, and those beside a feed-forward, are read and named as transformers has them") {
  const DecoderConfig gemma4 = read_decoder_config(kGoldenModels / "gemma4_moe");
  CHECK(mixtures_of(gemma4) == std::vector<bool>{true, true});
  CHECK(gemma4.layers[0].feed_forward.inner == 48);
  CHECK(gemma4.layers[0].mixture->inner == 12);
  CHECK(gemma4.layers[0].mixture->route.top_k == 3);
  CHECK(!gemma4.router_aux_loss_coef);
  const ParameterTable table = parameters_of(*read_model(kGoldenModels / "gemma4_moe"), {});
  const Parameter& up = *table.find("model.layers.1.experts.7.gate_up_proj.weight");
  CHECK(up.source.name == "model.layers.1.experts.gate_up_proj");
  CHECK(up.shape == Shape{24, 32});
  CHECK(up.slab == 7);
  CHECK(table.find("model.layers.0.router.proj.weight")->role == ParameterRole::kLinear);
  CHECK(table.find("model.layers.0.router.per_expert_scale")->written_shape() == Shape{8});
  const ParameterTable granite = parameters_of(*read_model(kGoldenModels / "granitemoe"), {});
  CHECK(granite.find("model.layers.0.block_sparse_moe.experts.0.down_proj.weight")->source.name ==
        "model.layers.0.block_sparse_moe.output_linear.weight");
  CHECK(granite.find("model.layers.0.block_sparse_moe.router.layer.weight")->tensor.name ==
        "model.layers.0.block_sparse_moe.router.weight");
}

TEST_CASE("rotary_dim is MiniMax M2's part of a head that turns, where no factor is given") {
  const json keys = {
      {"model_type", "minimax_m2"}, {"head_dim", 16}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}};
  const auto part = [&](json more) {
    more.update(keys);
    return parse(more, "MiniMaxM2ForCausalLM").ropes[0].partial_rotary_factor;
  };
  CHECK(part({{"rotary_dim", 8}}) == 0.5);
  CHECK(part({{"rotary_dim", 8}, {"partial_rotary_factor", 0.25}}) == 0.25);
  CHECK(part(json::object()) == 1);
}

TEST_CASE("heads of latent attention are as wide as their keys, and rope turns the last part of them") {
  const DecoderConfig v2 = read_decoder_config(kGoldenModels / "deepseek_v2");
  const Attention& attention = v2.layers[1].attention;
  REQUIRE(attention.latent);
  CHECK(attention.latent->query_rank == 0);
  CHECK(attention.head_dim == 16);
  CHECK(attention.rope_dim() == 8);
  CHECK(attention.output_width() == 4 * 12);
  CHECK(v2.layers[1].mixture->route.best_of_group == 1);
  CHECK(mixtures_of(v2) == std::vector<bool>{false, true});
  const double stretch = 0.1 * 1.4 * std::log(4.0) + 1;
  CHECK(attention.scale == doctest::Approx(stretch * stretch / 4));
  const DecoderConfig lite = read_decoder_config(kGoldenModels / "glm4_moe_lite");
  CHECK(mixtures_of(lite) == std::vector<bool>{true, false, true});
  CHECK(lite.layers[0].attention.latent->query_rank == 20);
}

TEST_CASE("Mistral Small 4's groups are told by their two best experts, and its whole queries grow") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "mistral4");
  CHECK(config.architecture == &architectures::kMistral4);
  CHECK(mixtures_of(config) == std::vector<bool>{false, true});
  const Mixture& mixture = *config.layers[1].mixture;
  CHECK(mixture.stacked);
  CHECK(mixture.route.score == ops::RouteScore::kSoftmax);
  CHECK(mixture.route.best_of_group == 2);
  CHECK(mixture.route.scale == 1.7);
  CHECK(config.ropes[0].partial_rotary_factor == 1);
  CHECK(config.ropes[0].llama_4_scaling_beta == 0.3);
  CHECK(count_ops(graph_of_tiny("mistral4"), "rope") == 2 * 3);
}

TEST_CASE("a part of Mistral Small 4's heads that is not its rotated one is refused") {
  const auto error_of = [](const json& rope) {
    json all = {{"n_routed_experts", 8},    {"num_experts_per_tok", 2}, {"moe_intermediate_size", 20},
                {"num_attention_heads", 4}, {"num_key_value_heads", 4}, {"rope_parameters", rope}};
    return config_error(all, "Mistral4ForCausalLM");
  };
  json rope = {{"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}, {"original_max_position_embeddings", 8192}};
  CHECK(error_of(rope).empty());
  rope["partial_rotary_factor"] = 0.5;
  CHECK(error_of(rope).empty());
  rope["partial_rotary_factor"] = 0.25;
  CHECK(
      has(error_of(rope), "partial_rotary_factor] expected qk_rope_head_dim / (qk_nope_head_dim + qk_rope_head_dim)"));
  CHECK(has(error_of(nullptr), "llama_4_scaling_beta"));
}

TEST_CASE("latent attention and routers that are not computed are refused by the key") {
  const auto error_of = [](const json& changes) {
    json all = {{"model_type", "deepseek_v3"},
                {"n_routed_experts", 8},
                {"num_experts_per_tok", 2},
                {"moe_intermediate_size", 20},
                {"n_group", 4},
                {"topk_group", 2},
                {"first_k_dense_replace", 1},
                {"n_shared_experts", 1},
                {"routed_scaling_factor", 1.0},
                {"num_attention_heads", 4},
                {"num_key_value_heads", 4}};
    all.update(changes);
    return config_error(all, "DeepseekV3ForCausalLM");
  };
  CHECK(
      has(error_of({{"v_head_dim", 256}}), "expected v_head_dim of at most qk_nope_head_dim + qk_rope_head_dim = 192"));
  CHECK(has(error_of({{"qk_rope_head_dim", 33}}), "expected an even qk_rope_head_dim, got 33"));
  CHECK(
      has(error_of({{"num_key_value_heads", 2}}), "expected num_key_value_heads to be num_attention_heads = 4, got 2"));
  CHECK(has(error_of({{"rope_interleave", false}}), "rope_interleave] expected true"));
  CHECK(has(error_of({{"moe_layer_freq", 2}}), "moe_layer_freq] expected 1"));
  CHECK(has(error_of({{"scoring_func", "softmax"}}), "scoring_func] expected sigmoid"));
}

TEST_CASE("layers that predict several tokens are carried over, and a router's bias is never trained") {
  const ParameterTable parameters =
      parameters_of(*read_model(kGoldenModels / "glm4_moe", R"({"num_nextn_predict_layers": 1})"));
  CHECK(parameters.is_of_other_part("model.layers.3.eh_proj.weight"));
  CHECK(!parameters.is_of_other_part("model.layers.2.mlp.gate.weight"));
  const ParameterTable trained =
      parameters_of(*read_model(kGoldenModels / "glm4_moe"), {.dtype = DType::kBF16, .train_base = true});
  const Parameter* const bias = trained.find("model.layers.1.mlp.gate.e_score_correction_bias");
  REQUIRE(bias != nullptr);
  CHECK(!bias->trained);
  CHECK(bias->dtype == DType::kF32);
  CHECK(trained.find("model.layers.1.mlp.gate.weight")->trained);
}

TEST_CASE("what training a router would need and is not computed is noted, and refused by training alone") {
  const auto note_of = [](const json& changes) {
    const DecoderConfig config = parse(with(changes), "Qwen3MoeForCausalLM");
    return config.untrainable ? std::string(config.untrainable->what()) : std::string();
  };
  CHECK(note_of({{"router_aux_loss_coef", 0.01}, {"output_router_logits", true}}).empty());
  CHECK(has(note_of({{"router_jitter_noise", 0.1}}), "expected router_jitter_noise 0"));
}

TEST_CASE("a mixture has the load-balancing loss of its config where that returns the router's logits") {
  const auto coefficient_of = [](const json& changes) {
    return parse(with(changes), "Qwen3MoeForCausalLM").router_aux_loss_coef;
  };
  CHECK(coefficient_of({{"router_aux_loss_coef", 0.01}}) == 0);
  CHECK(coefficient_of({{"router_aux_loss_coef", 0.01}, {"output_router_logits", true}}) == 0.01);
  CHECK(coefficient_of({{"output_router_logits", true}}) == 0.001);
  CHECK(has(error_of_changes({{"router_aux_loss_coef", -1}}), "router_aux_loss_coef"));
  CHECK(read_model(kGoldenModels / "olmoe", R"({"output_router_logits": true, "router_aux_loss_coef": null})")
            ->text()
            ->router_aux_loss_coef == 0.01);
  CHECK(!read_model(kGoldenModels / "qwen3")->text()->router_aux_loss_coef);
}

TEST_CASE("tensors of more or fewer experts than the config says are refused by name") {
  CHECK(weights_error("qwen3_moe", "").empty());
  // The router's shape is compared first.
  CHECK(has(weights_error("qwen3_moe", R"({"num_local_experts": 9})"), "model.layers.0.mlp.gate.weight"));
  CHECK(has(weights_error("mixtral", R"({"num_local_experts": 7})"), "model.layers.0.block_sparse_moe.gate.weight"));
}

TEST_CASE("targets of adapters that mean single experts are refused, and those beside them are not") {
  const auto targets_of = [](const char* model, const char* target) {
    return lora_targets(parameters_of(*read_model(kGoldenModels / model)), {.target_modules = {target}}, "targets");
  };
  CHECK_THROWS_WITH((void)targets_of("qwen3_moe", "gate_proj"),
                    "[targets] expected linear layers, and experts by the name of their tensor, "
                    "model.layers.0.mlp.experts.gate_up_proj, got 'gate_proj'; convert the adapter with PEFT 0.21, or "
                    "name others");
  CHECK_THROWS_WITH((void)targets_of("mixtral", "w2"), doctest::Contains("mlp.experts.down_proj, got 'w2'"));
  CHECK(targets_of("olmoe", "q_proj").size() == 2);
  // PEFT takes, of Qwen2's mixture, the feed-forward and the shared expert.
  CHECK(targets_of("qwen2_moe", "gate_proj") ==
        std::vector<std::string>{"model.layers.0.mlp.gate_proj", "model.layers.1.mlp.shared_expert.gate_proj"});
  CHECK_THROWS_WITH((void)saved_weights(parameters_of(*read_model(kGoldenModels / "olmoe")),
                                        {.target_modules = {"q_proj"}, .modules_to_save = {"gate"}}, "saved"),
                    doctest::Contains("expected layers outside of mixtures"));
}

TEST_CASE("tensors of mixtures get factors by names and shapes of PEFT's") {
  const ModelPtr mixtral = read_model(kGoldenModels / "mixtral");
  const auto shapes_of = [&](const LoraOptions& lora) {
    std::map<std::string, Shape> shapes;
    for (const Parameter& p : parameters_of(*mixtral, {.lora = lora}))
      if (p.is_factor() && p.name.find("layers.0.mlp") != std::string::npos) shapes.emplace(p.name, p.shape);
    return shapes;
  };
  const std::string stem = "base_model.model.model.layers.0.mlp.";
  const std::map<std::string, Shape> all = shapes_of(
      {.r = 3, .alpha = 3, .target_parameters = {"mlp.experts.gate_up_proj", "experts.down_proj", "gate.weight"}});
  CHECK(all == std::map<std::string, Shape>{{stem + "experts.base_layer.lora_A.weight", {24, 32}},
                                            {stem + "experts.base_layer.lora_B.weight", {40, 24}},
                                            {stem + "experts.lora_A.weight", {24, 20}},
                                            {stem + "experts.lora_B.weight", {32, 24}},
                                            {stem + "gate.lora_A.weight", {3, 32}},
                                            {stem + "gate.lora_B.weight", {8, 3}}});
  const std::map<std::string, Shape> one =
      shapes_of({.r = 3, .alpha = 3, .target_parameters = {"mlp.experts.gate_up_proj"}});
  CHECK(one.size() == 2);
  CHECK(one.contains(stem + "experts.lora_A.weight"));
}

TEST_CASE("what factors of mixtures cannot be is refused") {
  const ParameterTable parameters = parameters_of(*read_model(kGoldenModels / "olmoe"));
  const auto error_of_options = [&](LoraOptions lora) {
    lora.target_parameters.insert("mlp.experts.down_proj");
    try {
      check_target_tensors(parameters, lora, "key");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(error_of_options({.r = 20}).empty());
  CHECK(error_of_options({.r = 21}) ==
        "[key] expected a rank of at most 20, the smaller side of model.layers.0.mlp.experts.down_proj, got 21; choose "
        "a smaller one");
  CHECK(has(error_of_options({.r = 4, .dropout = 0.1}), "expected no dropout of the adapter beside factors"));
  CHECK(has(error_of_options({.r = 4, .dora = true}), "expected no DoRA beside"));
  CHECK(has(error_of_options({.r = 4, .target_parameters = {"experts.up_proj"}}),
            "expected tensors of experts or routers (mlp.experts.gate_up_proj, mlp.experts.down_proj, "
            "mlp.gate.weight), got 'experts.up_proj'"));
}
