// Falcon-H1: in each layer attention and a state space read the same rows, and their sum joins the stream. Multipliers
// scale what almost every part reads or gives.
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "model/decoder/architecture.h"
#include "model/decoder/state_space_config.h"

namespace spillway::architectures {
namespace {

constexpr double kMinFalconFactor = 1e-6, kMaxFalconFactor = 1e6;

double read_factor(const JsonField& json, std::string_view key) {
  return json[key].real_or(1, kMinFalconFactor, kMaxFalconFactor);
}

// Returns as many factors as `count`, ones where the key is missing.
std::vector<double> read_factors(const JsonField& json, std::string_view key, size_t count) {
  if (json[key].is_null()) return std::vector<double>(count, 1);
  std::vector<double> factors;
  for (const JsonField& factor : json[key].elements())
    factors.push_back(factor.real(kMinFalconFactor, kMaxFalconFactor));
  if (factors.size() == count) return factors;
  throw input_error(json.where(), "expected {} to list {} numbers, got {}; correct the list", key, count,
                    factors.size());
}

// The norm of a state space stands before the gate unless the config says otherwise.
StateNorm read_norm(const JsonField& json) {
  if (!json["mamba_rms_norm"].boolean_or(false)) return StateNorm::kAbsent;
  return json["mamba_norm_before_gate"].boolean_or(true) ? StateNorm::kBeforeGate : StateNorm::kBehindGate;
}

GatedDelta read_parallel_space(const JsonField& json, int64_t hidden_size) {
  GatedDelta space = read_state_space(
      json, {.output_bias = "projectors_bias", .width = "mamba_d_ssm", .default_width = 1024}, hidden_size);
  const std::vector<double> factors = read_factors(json, "ssm_multipliers", 5);
  space.norm = read_norm(json);
  space.scales = {.input = read_factor(json, "ssm_in_multiplier"),
                  .output = read_factor(json, "ssm_out_multiplier"),
                  .gate = factors[0],
                  .values = factors[1],
                  .keys = factors[2],
                  .queries = factors[3],
                  .steps = factors[4]};
  space.has_adapters = false;
  return space;
}

void read_falcon_h1(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {bias, bias, json["mlp_bias"].boolean_or(false)});
  config.embedding_scale = read_factor(json, "embedding_multiplier");
  config.logit_scale = read_factor(json, "lm_head_multiplier");
  const std::vector<double> of_feed_forward = read_factors(json, "mlp_multipliers", 2);
  const GatedDelta space = read_parallel_space(json, config.hidden_size);
  for (DecoderLayer& layer : config.layers) {
    layer.delta = space;
    layer.attention.scale *= read_factor(json, "key_multiplier");  // a score is linear in its key
    layer.attention.input_scale = read_factor(json, "attention_in_multiplier");
    layer.attention.output_scale = read_factor(json, "attention_out_multiplier");
    layer.feed_forward.gate_scale = of_feed_forward[0];
    layer.feed_forward.output_scale = of_feed_forward[1];
  }
}

}  // namespace

const Architecture kFalconH1{
    .name = "FalconH1ForCausalLM",
    .model_type = "falcon_h1",
    .default_kv_heads = 8,
    .default_max_position_embeddings = 8192,
    .default_pad_token_id = 0,
    .norm = {.eps = 1e-5},
    .final_norm = "model.final_layernorm",
    .layer = {.norms = {.before_feed_forward = "pre_ff_layernorm"}, .feed_forward = {.module = "feed_forward"}},
    .read = read_falcon_h1,
    .gguf = {
        .name = "falcon-h1",
        .is_norm_bare = true,
        .folds_scales = true,
        .states_vocabulary = true,
        .head_size = GgufHeadSize::kWritten,
        .head = GgufHead::kUntied,
        .space = {.is_there = true, .width = "mamba_d_ssm", .norm_key = "mamba_rms_norm", .always_adds_bias = true}}};

}  // namespace spillway::architectures
