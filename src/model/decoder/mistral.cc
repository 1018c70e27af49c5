// Mistral: Llama with one window for all layers.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_mistral(const JsonField& json, DecoderConfig& config) { set_windows(window_of(json), config); }

}  // namespace

const Architecture kMistral{.name = "MistralForCausalLM",
                            .model_type = "mistral",
                            .default_kv_heads = 8,
                            .default_max_position_embeddings = 131072,
                            .read = read_mistral,
                            .gguf = {.name = "llama",
                                     .told_by = "attention.sliding_window",
                                     .name_in_mistral3 = "mistral3",
                                     .states_vocabulary = true,
                                     .head_size = GgufHeadSize::kWritten,
                                     .rope = {.turns_neighbours = true, .reads_factors = true, .states_size = true}},
                            .default_sizes = {32000, 4096, 14336, 32, 32}};

}  // namespace spillway::architectures
