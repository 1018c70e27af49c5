// Arcee's AFM: Llama without a gate in its feed-forward, whose activation is the square of relu.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_arcee(const JsonField& json, DecoderConfig& config) {
  const bool attention = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {attention, attention, json["mlp_bias"].boolean_or(false)});
}

}  // namespace

const Architecture kArcee{.name = "ArceeForCausalLM",
                          .model_type = "arcee",
                          .default_max_position_embeddings = 4096,
                          .norm = {.eps = 1e-5},
                          .activation_names = kReluSquaredNames,
                          .layer = {.feed_forward = {.activation = Activation::kReluSquared, .has_gate = false}},
                          .read = read_arcee,
                          .gguf = {.name = "arcee",
                                   .states_vocabulary = true,
                                   .head_size = GgufHeadSize::kWritten,
                                   .rope = {.turns_neighbours = true, .reads_factors = true, .states_size = true}}};

}  // namespace spillway::architectures
