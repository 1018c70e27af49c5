// Apertus: Llama with norms of its heads and without a gate in its feed-forward, whose activation has trained numbers.
#include "base/error.h"
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

// Throws InputError for what transformers does not compute, whatever config.json says.
void refuse_other_layers(const JsonField& json) {
  if (json["post_norm"].boolean_or(false))
    throw json["post_norm"].bad("false", "use a model with norms before branches");
  if (!json["qk_norm"].boolean_or(true)) throw json["qk_norm"].bad("true", "use a model with norms of its heads");
  if (json["mlp_bias"].boolean_or(false)) throw json["mlp_bias"].bad("false", "use a model without these biases");
}

void read_apertus(const JsonField& json, DecoderConfig& config) {
  refuse_other_layers(json);
  // Transformers would take the rope of one model instead.
  if (json["rope_parameters"].is_null() && json["rope_scaling"].is_null())
    throw input_error(json.where(), "expected rope_parameters or rope_scaling, got none; {}",
                      "add it as the model's files have it");
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
}

constexpr std::string_view kXieluNames[] = {"xielu"};

constexpr GgufFamily kApertusGguf{.name = "apertus",
                                  .states_vocabulary = true,
                                  .head = GgufHead::kUntied,
                                  .biases = {.qkv = true, .output = true, .vary = true},
                                  .rope = {.reads_factors = true, .states_size = true}};

}  // namespace

const Architecture kApertus{
    .name = "ApertusForCausalLM",
    .model_type = "apertus",
    .default_max_position_embeddings = 65536,
    .default_pad_token_id = 3,
    .norm = {.eps = 1e-5},
    .rope = {.theta = 12e6},
    .activation_names = kXieluNames,
    .layer = {.norms = {.before_attention = "attention_layernorm", .before_feed_forward = "feedforward_layernorm"},
              .attention = {.head_norm = HeadNorm::kEachHead},
              .feed_forward = {.activation = Activation::kXielu, .has_gate = false}},
    .read = read_apertus,
    .gguf = kApertusGguf};

}  // namespace spillway::architectures
