// Llama 1 to 3, and what is built like it.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_llama(const JsonField& json, DecoderConfig& config) {
  const bool attention = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {attention, attention, json["mlp_bias"].boolean_or(false)});
}

}  // namespace

const Architecture kLlama{.name = "LlamaForCausalLM",
                          .model_type = "llama",
                          .default_max_position_embeddings = 2048,
                          .read = read_llama,
                          .gguf = {.name = "llama",
                                   .states_vocabulary = true,
                                   .head_size = GgufHeadSize::kWritten,
                                   .biases = {.qkv = true, .output = true, .feed_forward = true, .vary = true},
                                   .rope = {.turns_neighbours = true, .reads_factors = true, .states_size = true}},
                          .default_sizes = {32000, 4096, 11008, 32, 32}};

}  // namespace spillway::architectures
