// Granite 3: Llama with a multiplier of the embedding, of what each branch adds, of the scores, and a divisor of the
// logits.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

constexpr double kMinMultiplier = 1e-6, kMaxMultiplier = 1e6;

void read_granite(const JsonField& json, DecoderConfig& config) {
  config.qkv_bias = config.output_bias = json["attention_bias"].boolean_or(false);
  config.mlp_bias = json["mlp_bias"].boolean_or(false);
  const auto multiplier = [&](std::string_view key) { return json[key].real_or(1, kMinMultiplier, kMaxMultiplier); };
  config.embedding_scale = multiplier("embedding_multiplier");
  config.residual_scale = multiplier("residual_multiplier");
  config.attention_scale = multiplier("attention_multiplier");
  config.logit_scale = 1 / multiplier("logits_scaling");
}

}  // namespace

const Architecture kGranite{.name = "GraniteForCausalLM",
                            .model_type = "granite",
                            .default_max_position_embeddings = 2048,
                            .read = read_granite,
                            .layer = layer::kLlama};

}  // namespace spillway::architectures
