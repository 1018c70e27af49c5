// OLMo 2: what a branch gives is normalised, not what it reads; queries and keys are, all heads of a token together.
// OLMo 3: a window in three of four layers, whose rope is never stretched.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_olmo2(const JsonField& json, DecoderConfig& config) {
  config.qkv_bias = config.output_bias = json["attention_bias"].boolean_or(false);
}

void read_olmo3(const JsonField& json, DecoderConfig& config) {
  read_olmo2(json, config);
  read_patterned_windows(json, 4, config);
}

constexpr LayerPart kOlmo2Layer[] = {layer::take_stream,     layer::project_heads, layer::normalise_projections,
                                     layer::rotate_heads,    layer::attention,     layer::branch_output,
                                     layer::join_attention,  layer::take_stream,   layer::branch_mlp,
                                     layer::join_feedforward};

}  // namespace

const Architecture kOlmo2{.name = "Olmo2ForCausalLM",
                          .model_type = "olmo2",
                          .default_max_position_embeddings = 2048,
                          .default_rms_norm_eps = 1e-5,
                          .default_pad_token_id = 1,
                          .read = read_olmo2,
                          .layer = kOlmo2Layer};

// Transformers gives the layers with a window this base whatever rope_theta says.
const Architecture kOlmo3{.name = "Olmo3ForCausalLM",
                          .model_type = "olmo3",
                          .default_max_position_embeddings = 2048,
                          .default_rms_norm_eps = 1e-5,
                          .default_rope_theta = 5e5,
                          .default_pad_token_id = 1,
                          .default_local_rope_theta = 5e5,
                          .read = read_olmo3,
                          .layer = kOlmo2Layer};

}  // namespace spillway::architectures
