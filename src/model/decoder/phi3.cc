// Phi-3: Llama whose queries, keys and values are one product, and gate and up another.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_phi3(const JsonField& json, DecoderConfig& config) {
  note_dropout(json, "resid_pdrop", config);
  if (!json["sliding_window"].is_null()) set_windows(window_of(json), config);
}

}  // namespace

const Architecture kPhi3{.name = "Phi3ForCausalLM",
                         .model_type = "phi3",
                         .default_max_position_embeddings = 4096,
                         .default_pad_token_id = 32000,
                         .norm = {.eps = 1e-5},
                         .rope = {.is_partial = true, .only_knows_longrope = true},
                         .layer = {.attention = {.is_fused = true}, .feed_forward = {.is_fused = true}},
                         .read = read_phi3,
                         .gguf = {.name = "phi3",
                                  .head_size = GgufHeadSize::kImplied,
                                  .heads_fill_rows = true,
                                  .windows = GgufWindows::kUnread,
                                  .rope = {.may_stretch = false, .reads_longrope = true, .states_size = true}}};

}  // namespace spillway::architectures
