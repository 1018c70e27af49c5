// GLM-4.5 to 4.7: feed-forwards in the first layers and mixtures behind them, whose routers score each expert by itself
// and choose by those scores plus a bias that is never trained.
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxUnreadLayers = 64;

void read_glm4_moe(const JsonField& json, DecoderConfig& config) {
  set_biases(config.layers, {.qkv = json["attention_bias"].boolean_or(false)});
  if (json["use_qk_norm"].boolean_or(false))
    for (DecoderLayer& layer : config.layers) layer.attention.head_norm = HeadNorm::kEachHead;
  set_mixtures_behind_dense(json, read_grouped_mixture(json), config);
  config.has_unread_layers = json["num_nextn_predict_layers"].integer_or(1, 0, kMaxUnreadLayers) > 0;
}

}  // namespace

const Architecture kGlm4Moe{.name = "Glm4MoeForCausalLM",
                            .model_type = "glm4_moe",
                            .default_kv_heads = 8,
                            .default_max_position_embeddings = 131072,
                            .norm = {.eps = 1e-5},
                            .rope = {.is_partial = true, .partial_rotary_factor = 0.5},
                            .read = read_glm4_moe,
                            .gguf = {.name = "glm4moe",
                                     .norm_before_feed_forward = "post_attention_norm",
                                     .biases = {.qkv = true, .vary = true},
                                     .mixture = kGroupedGgufMixture,
                                     .rope = {.states_size = true},
                                     .head_norm_key = "use_qk_norm"}};

}  // namespace spillway::architectures
