// Ministral 3: Mistral whose queries grow with the logarithm of their position, beside a rope stretched by YaRN.
#include "base/error.h"
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_ministral3(const JsonField& json, DecoderConfig& config) {
  if (!json["sliding_window"].is_null()) set_windows(window_of(json), config);
  if (json["rope_parameters"].is_null() && json["rope_scaling"].is_null())
    throw input_error(json.where(), "expected rope_parameters, got none; add them as the model's files have them");
}

}  // namespace

const Architecture kMinistral3{
    .name = "Ministral3ForCausalLM",
    .model_type = "ministral3",
    .default_kv_heads = 8,
    .default_head_dim = 128,
    .default_max_position_embeddings = 262144,
    .default_pad_token_id = 11,
    .norm = {.eps = 1e-5},
    .rope = {.scales_queries = true},
    .read = read_ministral3,
    .gguf = {.name = "mistral3",
             .told_by = "attention.temperature_scale",
             .states_vocabulary = true,
             .head_size = GgufHeadSize::kWritten,
             .rope = {.turns_neighbours = true, .reads_yarn_betas = true, .states_size = true}}};

}  // namespace spillway::architectures
