// Phi-3: Llama whose queries, keys and values are one product, and gate and up another.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_phi3(const JsonField& json, DecoderConfig& config) {
  note_dropout(json, "resid_pdrop", config);
  if (!json["sliding_window"].is_null()) config.sliding_window.assign(config.sliding_window.size(), window_of(json));
}

constexpr LayerPart kPhi3Layer[] = {
    layer::input_norm, layer::project_fused_heads, layer::rotate_heads, layer::attention,
    layer::output,     layer::post_attention_norm, layer::fused_mlp};

}  // namespace

const Architecture kPhi3{.name = "Phi3ForCausalLM",
                         .model_type = "phi3",
                         .default_max_position_embeddings = 4096,
                         .default_rms_norm_eps = 1e-5,
                         .default_pad_token_id = 32000,
                         .rotates_in_part = true,
                         .only_knows_longrope = true,
                         .read = read_phi3,
                         .layer = kPhi3Layer};

}  // namespace spillway::architectures
