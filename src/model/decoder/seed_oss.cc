// Seed-OSS: Llama with biases on queries, keys and values, but not on what attention gives.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

constexpr double kDefaultDropout = 0.1;

void read_seed_oss(const JsonField& json, DecoderConfig& config) {
  note_dropout(json, "residual_dropout", config, kDefaultDropout);
  set_biases(config.layers, {.qkv = json["attention_bias"].boolean_or(true),
                             .output = json["attention_out_bias"].boolean_or(false),
                             .feed_forward = json["mlp_bias"].boolean_or(false)});
}

}  // namespace

const Architecture kSeedOss{.name = "SeedOssForCausalLM",
                            .model_type = "seed_oss",
                            .default_kv_heads = 8,
                            .default_head_dim = 128,
                            .default_max_position_embeddings = 524288,
                            .default_pad_token_id = 1,
                            .default_dropout = kDefaultDropout,
                            .read = read_seed_oss,
                            .gguf = {.name = "seed_oss",
                                     .norm_before_feed_forward = "post_attention_norm",
                                     .head_size = GgufHeadSize::kWritten,
                                     .biases = {.qkv = true, .vary = true}}};

}  // namespace spillway::architectures
