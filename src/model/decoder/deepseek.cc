// DeepSeek V2 and V3, and GLM-4.7-Flash and Mistral Small 4, which have V3's layers: latent attention, feed-forwards in
// the first layers and mixtures behind them.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxLatentRank = int64_t{1} << 20, kMaxUnreadLatentLayers = 64;

// Transformers' defaults of the keys of latent attention.
struct LatentDefaults {
  int64_t q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128;
};

// An explicit null means queries without a latent row.
int64_t read_query_rank(const JsonField& json, int64_t missing) {
  if (json.has("q_lora_rank") && json["q_lora_rank"].is_null()) return 0;
  return json["q_lora_rank"].integer_or(missing, 1, kMaxLatentRank);
}

// Sets the attention of all layers. The inner norms of the two latent rows are the same in all models.
void read_latent_attention(const JsonField& json, const LatentDefaults& missing, DecoderConfig& config) {
  LatentHeads latent{.query_rank = read_query_rank(json, missing.q_lora_rank),
                     .key_rank = json["kv_lora_rank"].integer_or(missing.kv_lora_rank, 1, kMaxLatentRank),
                     .rotated = json["qk_rope_head_dim"].integer_or(missing.qk_rope_head_dim, 2, ops::kMaxHeadSize),
                     .value_dim = json["v_head_dim"].integer_or(missing.v_head_dim, 1, ops::kMaxHeadSize)};
  const int64_t plain = json["qk_nope_head_dim"].integer_or(missing.qk_nope_head_dim, 1, ops::kMaxHeadSize);
  const int64_t head = plain + latent.rotated;
  const Attention& any = config.layers.front().attention;
  const auto check = [&](bool is_right, std::string_view expected, int64_t got) {
    if (!is_right) throw input_error(json.where(), "expected {}, got {}; check both numbers", expected, got);
  };
  check(any.kv_heads == any.heads, fmt::format("num_key_value_heads to be num_attention_heads = {}", any.heads),
        any.kv_heads);
  check(latent.rotated % 2 == 0, "an even qk_rope_head_dim", latent.rotated);
  check(head % 2 == 0 && head <= ops::kMaxHeadSize,
        fmt::format("qk_nope_head_dim + qk_rope_head_dim to be even and at most {}", ops::kMaxHeadSize), head);
  check(latent.value_dim <= head, fmt::format("v_head_dim of at most qk_nope_head_dim + qk_rope_head_dim = {}", head),
        latent.value_dim);
  if (!json["rope_interleave"].boolean_or(true))
    throw json["rope_interleave"].bad("true", "use a model whose files have the pairs of its rope as neighbours");
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  for (DecoderLayer& layer : config.layers) {
    layer.attention.latent = latent;
    layer.attention.head_dim = head;
    layer.attention.scale = 1 / std::sqrt(static_cast<double>(head));
  }
  config.has_unread_layers = json["num_nextn_predict_layers"].integer_or(0, 0, kMaxUnreadLatentLayers) > 0;
}

// Throws InputError for a key that is missing, whose default in transformers is that of one model.
void require(const JsonField& json, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (!json.has(key))
      throw input_error(json.where(), "expected {}, got none; add it as the model's files have it", key);
}

// Throws InputError for a router of another kind, by keys that transformers does not read.
void check_scores(const JsonField& json, std::string_view scores) {
  if (json["scoring_func"].string_or(scores) != scores)
    throw json["scoring_func"].bad(scores, "use a model whose router scores so");
}

void check_every_layer(const JsonField& json) {
  if (json["moe_layer_freq"].integer_or(1, 1, kMaxLatentRank) != 1)
    throw json["moe_layer_freq"].bad("1", "use a model that has a mixture in every layer behind the dense ones");
}

// Routers score by a softmax; of groups, which are by default one, the two best experts count.
Mixture read_mistral4_mixture(const JsonField& json) {
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  mixture.route.normalises = json["norm_topk_prob"].boolean_or(true);
  mixture.route.epsilon = mixture.route.normalises ? 1e-20 : 0;
  read_route_scale(json, mixture);
  read_route_groups(json, 2, mixture);
  read_shared_experts(json, mixture);
  mixture.stacked.emplace();
  mixture.targets_mean_experts = false;
  return mixture;
}

// Routers score by a softmax; of groups the best expert counts.
Mixture read_v2_mixture(const JsonField& json) {
  constexpr std::string_view kGreedy = "greedy", kInGroups = "group_limited_greedy";
  check_scores(json, "softmax");
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  const JsonField method = json["topk_method"];
  const std::string name = method.string_or(kGreedy);
  if (name != kGreedy && name != kInGroups)
    throw method.bad("greedy or group_limited_greedy", "use a model with one of them");
  if (json["norm_topk_prob"].boolean_or(false))
    throw json["norm_topk_prob"].bad("false", "use a model whose weights of experts are not normalised");
  read_route_scale(json, mixture);
  if (name == kInGroups) read_route_groups(json, 1, mixture);
  read_shared_experts(json, mixture);
  return mixture;
}

void read_deepseek_v2(const JsonField& json, DecoderConfig& config) {
  read_latent_attention(json, {}, config);
  check_every_layer(json);
  if (json["mlp_bias"].boolean_or(false)) throw json["mlp_bias"].bad("false", "use a model without these biases");
  if (json["n_routed_experts"].is_null()) return;
  require(json, {"n_shared_experts", "first_k_dense_replace"});
  set_mixtures_behind_dense(json, read_v2_mixture(json), config);
}

void read_deepseek_v3(const JsonField& json, DecoderConfig& config) {
  read_latent_attention(json, {}, config);
  check_every_layer(json);
  check_scores(json, "sigmoid");
  require(json, {"n_routed_experts", "n_shared_experts", "n_group", "topk_group", "routed_scaling_factor",
                 "first_k_dense_replace"});
  set_mixtures_behind_dense(json, read_grouped_mixture(json), config);
}

void read_mistral4(const JsonField& json, DecoderConfig& config) {
  read_latent_attention(json, {.q_lora_rank = 1024, .kv_lora_rank = 256, .qk_nope_head_dim = 64}, config);
  require(json, {"rope_parameters", "n_routed_experts"});
  set_mixtures_behind_dense(json, read_mistral4_mixture(json), config, "first_k_dense_replace", 0);
}

// Layers are dense or sparse by a list; where there is none, the first is dense.
void read_glm4_moe_lite(const JsonField& json, DecoderConfig& config) {
  read_latent_attention(json, {.q_lora_rank = 768, .qk_nope_head_dim = 192, .v_head_dim = 256}, config);
  require(json, {"n_routed_experts", "n_shared_experts", "n_group", "topk_group", "routed_scaling_factor"});
  const Mixture mixture = read_grouped_mixture(json);
  const JsonField types = json["mlp_layer_types"];
  if (types.is_null()) {
    for (size_t i = 1; i < config.layers.size(); ++i) config.layers[i].replace_feed_forward(mixture);
    return;
  }
  const std::vector<JsonField> listed = types.elements();
  if (std::ssize(listed) != std::ssize(config.layers))
    throw input_error(types.where(), "expected a type for each of {} layers, got {}; correct the list",
                      config.layers.size(), listed.size());
  for (size_t i = 0; i < listed.size(); ++i) {
    const std::string type = listed[i].string();
    if (type != "dense" && type != "sparse") throw listed[i].bad("dense or sparse", "correct the list");
    if (type == "sparse") config.layers[i].replace_feed_forward(mixture);
  }
}

constexpr RopeDefaults kPairs{.layout = ops::RopeLayout::kPairs};

// GLM-4.7-Flash is a DeepSeek V3 to llama.cpp, and V3 is told from V2 by what its routers choose by.
constexpr GgufFamily deepseek2(std::string_view told_by_tensor) {
  return {.name = "deepseek2",
          .told_by_tensor = told_by_tensor,
          .states_vocabulary = true,
          .states_score_scale = true,
          .mixture = kGroupedGgufMixture,
          .rope = {.turns_neighbours = true, .reads_yarn_betas = true, .states_size = true}};
}

// Mistral Small 4 is a DeepSeek whose routers score by a softmax, with gates and ups of experts in one tensor.
constexpr GgufFamily mistral4(GgufFamily family) {
  family.name = "mistral4";
  family.mixture.states_gating = false;
  family.mixture.keeps_gate_up = true;
  return family;
}

}  // namespace

const Architecture kDeepseekV2{.name = "DeepseekV2ForCausalLM",
                               .model_type = "deepseek_v2",
                               .default_head_dim = 64,
                               .default_max_position_embeddings = 2048,
                               .rope = kPairs,
                               .read = read_deepseek_v2,
                               .gguf = deepseek2("")};

const Architecture kDeepseekV3{.name = "DeepseekV3ForCausalLM",
                               .model_type = "deepseek_v3",
                               .default_head_dim = 64,
                               .default_max_position_embeddings = 4096,
                               .rope = kPairs,
                               .read = read_deepseek_v3,
                               .gguf = deepseek2(".exp_probs_b.bias")};

const Architecture kGlm4MoeLite{.name = "Glm4MoeLiteForCausalLM",
                                .model_type = "glm4_moe_lite",
                                .default_head_dim = 64,
                                .default_max_position_embeddings = 202752,
                                .norm = {.eps = 1e-5},
                                .rope = kPairs,
                                .read = read_glm4_moe_lite,
                                .gguf = deepseek2("")};

// Mistral Small 4, whose queries grow with the logarithm of their position.
const Architecture kMistral4{
    .name = "Mistral4ForCausalLM",
    .model_type = "mistral4",
    .default_kv_heads = 32,
    .default_head_dim = 128,
    .default_max_position_embeddings = 1048576,
    .default_pad_token_id = 11,
    .rope = {.layout = ops::RopeLayout::kPairs, .scales_queries = true, .part_is_of_head = true},
    .read = read_mistral4,
    .gguf = mistral4(deepseek2("")),
    .default_sizes = {131072, 4096, 12288, 36, 32}};

}  // namespace spillway::architectures
