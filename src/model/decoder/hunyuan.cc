// Hunyuan's dense models: Llama with norms of its heads, which are taken of what is rotated.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_hunyuan(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
}

}  // namespace

const Architecture kHunyuanV1Dense{.name = "HunYuanDenseV1ForCausalLM",
                                   .model_type = "hunyuan_v1_dense",
                                   .default_max_position_embeddings = 2048,
                                   .default_pad_token_id = 0,
                                   .norm = {.eps = 1e-5},
                                   .rope = {.stretches_base = true},
                                   .layer = {.attention = {.head_norm = HeadNorm::kEachHead,
                                                           .head_norm_follows_rope = true,
                                                           .query_norm = "query_layernorm",
                                                           .key_norm = "key_layernorm"}},
                                   .read = read_hunyuan,
                                   .gguf = {.name = "hunyuan-dense"}};

}  // namespace spillway::architectures
