// OLMo 2: what a branch gives is normalised, not what it reads; queries and keys are, all heads of a token together.
// OLMo 3: a window in three of four layers, whose rope is never stretched.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_olmo2(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
}

void read_olmo3(const JsonField& json, DecoderConfig& config) {
  read_olmo2(json, config);
  read_patterned_windows(json, 4, config);
}

constexpr DecoderLayer kOlmoLayer{.norms = {.before_attention = "",
                                            .after_attention = "post_attention_layernorm",
                                            .before_feed_forward = "",
                                            .after_feed_forward = "post_feedforward_layernorm"},
                                  .attention = {.head_norm = HeadNorm::kAllHeads}};

}  // namespace

const Architecture kOlmo2{.name = "Olmo2ForCausalLM",
                          .model_type = "olmo2",
                          .default_max_position_embeddings = 2048,
                          .default_pad_token_id = 1,
                          .norm = {.eps = 1e-5},
                          .layer = kOlmoLayer,
                          .read = read_olmo2,
                          .gguf = {.name = "olmo2", .heads_fill_rows = true, .head = GgufHead::kUntied}};

// Transformers gives the layers with a window this base whatever rope_theta says.
const Architecture kOlmo3{.name = "Olmo3ForCausalLM",
                          .model_type = "olmo3",
                          .default_max_position_embeddings = 2048,
                          .default_pad_token_id = 1,
                          .norm = {.eps = 1e-5},
                          .rope = {.theta = 5e5, .local_theta = 5e5},
                          .layer = kOlmoLayer,
                          .read = read_olmo3,
                          .gguf = {.name = "olmo2",
                                   .told_by = "attention.sliding_window",
                                   .heads_fill_rows = true,
                                   .head = GgufHead::kUntied,
                                   .windows = GgufWindows::kListed,
                                   .rope = {.local_base = GgufLocalBase::kSame}}};

}  // namespace spillway::architectures
