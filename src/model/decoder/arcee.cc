// Arcee's AFM: Llama without a gate in its feed-forward, whose activation is the square of relu.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_arcee(const JsonField& json, DecoderConfig& config) {
  config.qkv_bias = config.output_bias = json["attention_bias"].boolean_or(false);
  config.mlp_bias = json["mlp_bias"].boolean_or(false);
}

constexpr LayerPart kArceeLayer[] = {layer::input_norm, layer::project_heads, layer::rotate_heads,
                                     layer::attention,  layer::output,        layer::post_attention_norm,
                                     layer::plain_mlp};

}  // namespace

const Architecture kArcee{.name = "ArceeForCausalLM",
                          .model_type = "arcee",
                          .default_max_position_embeddings = 4096,
                          .default_rms_norm_eps = 1e-5,
                          .activation = MlpActivation::kReluSquared,
                          .activation_names = kReluSquaredNames,
                          .read = read_arcee,
                          .layer = kArceeLayer};

}  // namespace spillway::architectures
