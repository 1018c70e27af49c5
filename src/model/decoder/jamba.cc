// AI21's Jamba: Mamba's selective scans in most layers, attention without positions in the others, and in every so many
// layers a mixture of experts in place of the feed-forward.
#include "base/error.h"
#include "base/index.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/state_space_config.h"

namespace spillway::architectures {
namespace {

// Every `period`-th layer, of which `offset` is the first.
struct EachOf {
  int64_t period, offset;

  [[nodiscard]] bool has(int64_t layer) const { return layer % period == offset; }
};

EachOf read_each_of(const JsonField& json, std::string_view period_key, std::string_view offset_key,
                    const EachOf& missing) {
  constexpr int64_t kMaxPeriod = int64_t{1} << 20;
  const EachOf result{json[period_key].integer_or(missing.period, 1, kMaxPeriod),
                      json[offset_key].integer_or(missing.offset, 0, kMaxPeriod)};
  if (result.offset < result.period) return result;
  throw input_error(json.where(), "expected {} below {} = {}, got {}; check both numbers", offset_key, period_key,
                    result.period, result.offset);
}

// Weights of experts are those of the softmax over all, and do not add up to one.
Mixture read_jamba_experts(const JsonField& json) {
  Mixture mixture = read_mixture(json, "intermediate_size");
  mixture.targets_mean_experts = false;
  mixture.module = mixture.transformers_module = "feed_forward";
  mixture.router = "router";
  return mixture;
}

void read_jamba(const JsonField& json, DecoderConfig& config) {
  const EachOf attention = read_each_of(json, "attn_layer_period", "attn_layer_offset", {8, 4});
  const EachOf experts = read_each_of(json, "expert_layer_period", "expert_layer_offset", {2, 1});
  const SelectiveScan scan = read_selective_scan(json, config.hidden_size);
  const bool has_experts = json["num_experts"].integer_or(16, 0, ops::kMaxExperts) > 1;
  for (int64_t i = 0; i < std::ssize(config.layers); ++i) {
    DecoderLayer& layer = nth(config.layers, i);
    layer.attention.rope.reset();
    if (!attention.has(i)) layer.replace_attention(scan);
    if (has_experts && experts.has(i)) layer.replace_feed_forward(read_jamba_experts(json));
  }
  read_router_training(json, kRouterAuxLossCoef, config);
}

constexpr GgufFamily kJambaGguf{
    .name = "jamba",
    .lists_keys = true,
    .head_size = GgufHeadSize::kImplied,
    .heads_fill_rows = true,
    .mixture = {.is_there = true,
                .experts = "num_experts",
                .may_be_absent = true,
                .layers = {.period = "expert_layer_period", .offset = "expert_layer_offset"},
                .norm_key = {}},
    .scan = {.is_there = true, .attention = {.period = "attn_layer_period", .offset = "attn_layer_offset"}},
    .rope = {.has_base = false, .may_stretch = false, .is_absent = true}};

}  // namespace

const Architecture kJamba{
    .name = "JambaForCausalLM",
    .model_type = "jamba",
    .default_kv_heads = 8,
    .default_max_position_embeddings = 262144,
    .default_pad_token_id = 0,
    .final_norm = "model.final_layernorm",
    .layer = {.norms = {.before_feed_forward = "pre_ff_layernorm"}, .feed_forward = {.module = "feed_forward"}},
    .read = read_jamba,
    .gguf = kJambaGguf};

}  // namespace spillway::architectures
