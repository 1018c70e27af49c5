// Nemotron (Minitron, Nemotron-Mini): layer normalisation with biases, whose weights are kept as their difference from
// 1, heads of which a part turns, and a feed-forward without a gate, whose activation is the square of relu.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_nemotron(const JsonField& json, DecoderConfig& config) {
  const bool attention = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {attention, attention, json["mlp_bias"].boolean_or(false)});
}

// llama.cpp's converter writes the epsilon under the name of another norm's, too.
constexpr GgufKey kNemotronKeys[] = {
    {"attention.layer_norm_rms_epsilon", "norm_eps", [](const DecoderConfig& config) { return config.norm_eps; }}};

}  // namespace

const Architecture kNemotron{.name = "NemotronForCausalLM",
                             .model_type = "nemotron",
                             .default_max_position_embeddings = 4096,
                             .norm = {.kind = NormKind::kLayer,
                                      .eps_key = "norm_eps",
                                      .eps = 1e-5,
                                      .weight_shift = 1,
                                      .has_bias = true,
                                      .starts_as_ones = true},
                             .rope = {.is_partial = true, .partial_rotary_factor = 0.5},
                             .activation_names = kReluSquaredNames,
                             .layer = {.feed_forward = {.activation = Activation::kReluSquared, .has_gate = false}},
                             .read = read_nemotron,
                             .gguf = {.name = "nemotron",
                                      .states_vocabulary = true,
                                      .head_size = GgufHeadSize::kWritten,
                                      .heads_fill_rows = true,
                                      .head = GgufHead::kUntied,
                                      .biases = {.qkv = true, .output = true, .feed_forward = true, .vary = true},
                                      .rope = {.may_stretch = false, .states_size = true, .states_no_scaling = true},
                                      .keys = kNemotronKeys}};

}  // namespace spillway::architectures
