// OLMo 2: what a branch gives is normalised, not what it reads; queries and keys are, all heads of a token together.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_olmo2(const JsonField& json, DecoderConfig& config) {
  config.qkv_bias = config.output_bias = json["attention_bias"].boolean_or(false);
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
                          .read = read_olmo2,
                          .layer = kOlmo2Layer};

}  // namespace spillway::architectures
