// The weights of layers that have a state in place of attention, in GGUF.
#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "base/math.h"
#include "model/decoder/gguf_weight_list.h"

namespace spillway {

void GgufWeightList::add_convolution(const ShortConvolution& convolution) {
  const int64_t channels = convolution.channels, taps = convolution.taps;
  add("shortconv.conv.weight", {channels, taps}, {part("conv.conv.weight", {channels, 1, taps})}).is_f32 = true;
  linear("shortconv.in_proj", "conv.in_proj", 3 * channels, channels, convolution.bias);
  linear("shortconv.out_proj", "conv.out_proj", channels, channels, convolution.bias);
}

// Each head of keys serves as many heads of values. Hugging Face has those of a head of keys behind one another; where
// a family deals them out, GGUF has the first of every head of keys, then the second of every one, and so on.
std::vector<GgufAxis> GgufWeightList::value_axes(const GatedDelta& delta, int64_t size) const {
  const int64_t keys = delta.heads.key_heads, served = div_exact(delta.heads.value_heads, keys);
  if (!family_.deals_value_heads) return {{delta.heads.value_heads * size, 1}};
  return {{served, size}, {keys, served * size}, {size, 1}};
}

GgufPart GgufWeightList::value_rows(GgufPart part, const GatedDelta& delta, int64_t size, int64_t first) const {
  return rows(std::move(part), first, value_axes(delta, size));
}

void GgufWeightList::add_delta(const GatedDelta& delta) {
  const int64_t channels = delta.channels(), values = delta.value_width(), heads = delta.heads.value_heads;
  const int64_t hidden = config_.hidden_size, first = channels - values;
  delta.is_by_head ? add_projections_by_head(delta) : add_delta_projections(delta);
  add("ssm_a", {heads}, {value_rows(part("linear_attn.A_log", {heads}), delta, 1)}).is_rate = true;
  add("ssm_dt.bias", {heads}, {value_rows(part("linear_attn.dt_bias", {heads}), delta, 1)});
  const GgufPart taps = part("linear_attn.conv1d.weight", {channels, 1, delta.taps});
  add("ssm_conv1d.weight", {channels, delta.taps},
      {rows(taps, 0, {{first, 1}}), value_rows(taps, delta, delta.heads.value_dim, first)})
      .is_f32 = true;
  // This norm's weights are what they say, also where others are kept as what they differ from one.
  norm("ssm_norm", "linear_attn.norm", delta.heads.value_dim, 0);
  GgufPart out = part("linear_attn.out_proj.weight", {hidden, values});
  out.axes = value_axes(delta, delta.heads.value_dim);
  out.axes.insert(out.axes.begin(), {hidden, values});
  add("ssm_out.weight", {hidden, values}, {out});
}

void GgufWeightList::add_delta_projections(const GatedDelta& delta) {
  const int64_t channels = delta.channels(), values = delta.value_width(), heads = delta.heads.value_heads;
  const int64_t hidden = config_.hidden_size, size = delta.heads.value_dim;
  const GgufPart all = part("linear_attn.in_proj_qkv.weight", {channels, hidden});
  add("attn_qkv.weight", {channels, hidden},
      {rows(all, 0, {{channels - values, 1}}), value_rows(all, delta, size, channels - values)});
  add("attn_gate.weight", {values, hidden},
      {value_rows(part("linear_attn.in_proj_z.weight", {values, hidden}), delta, size)});
  add("ssm_beta.weight", {heads, hidden},
      {value_rows(part("linear_attn.in_proj_b.weight", {heads, hidden}), delta, 1)});
  add("ssm_alpha.weight", {heads, hidden},
      {value_rows(part("linear_attn.in_proj_a.weight", {heads, hidden}), delta, 1)});
}

// Qwen3-Next's rows are those of one head of keys after another: its query, its key, its values and their gates.
void GgufWeightList::add_projections_by_head(const GatedDelta& delta) {
  const int64_t channels = delta.channels(), values = delta.value_width(), hidden = config_.hidden_size;
  const int64_t keys = delta.heads.key_heads, key = delta.heads.key_dim, served = div_exact(values, keys);
  const int64_t group = 2 * key + 2 * served;
  const GgufPart all = part("linear_attn.in_proj_qkvz.weight", {channels + values, hidden});
  const auto of_each = [&](int64_t first, int64_t count) { return rows(all, first, {{keys, group}, {count, 1}}); };
  add("attn_qkv.weight", {channels, hidden}, {of_each(0, key), of_each(key, key), of_each(2 * key, served)});
  add("attn_gate.weight", {values, hidden}, {of_each(2 * key + served, served)});
  linear("ssm_ba", "linear_attn.in_proj_ba", 2 * delta.heads.value_heads, hidden, false);
}

// The rows of the first projection are those of the gate, of values, keys and queries, which are convolved, and of time
// steps.
void GgufWeightList::add_state_space(const GatedDelta& space) {
  const int64_t hidden = config_.hidden_size, width = space.value_width(), heads = space.heads.value_heads;
  const int64_t channels = space.channels(), keys = space.heads.key_heads * space.heads.key_dim;
  const auto name = [&](std::string_view tensor) { return fmt::format("{}.{}", space.module, tensor); };
  const StateScales& scales = space.scales;
  const GgufPart all = part(name("in_proj.weight"), {width + channels + heads, hidden});
  std::vector<GgufPart> parts;
  int64_t first = 0;
  for (const auto& [count, scale] : std::initializer_list<std::pair<int64_t, double>>{{width, scales.gate},
                                                                                      {width, scales.values},
                                                                                      {keys, scales.keys},
                                                                                      {keys, scales.queries},
                                                                                      {heads, scales.steps}}) {
    parts.push_back(rows(all, first, {{count, 1}}));
    parts.back().factors = folded({scales.input, scale});
    first += count;
  }
  add("ssm_in.weight", {first, hidden}, std::move(parts));
  add("ssm_conv1d.weight", {channels, space.taps}, {part(name("conv1d.weight"), {channels, 1, space.taps})}).is_f32 =
      true;
  if (space.conv_bias) add("ssm_conv1d.bias", name("conv1d.bias"), {channels});
  add("ssm_dt.bias", name("dt_bias"), {heads});
  GgufWeight& rate = add("ssm_a", {heads, 1}, {part(name("A_log"), {heads})});
  rate.is_rate = rate.is_f32 = true;
  add("ssm_d", {heads, 1}, {part(name("D"), {heads})}).is_f32 = true;
  const int64_t groups = space.heads.key_heads;
  if (space.norm != StateNorm::kAbsent)
    add("ssm_norm.weight", {groups, width / groups}, {part(name("norm.weight"), {width})}).is_f32 = true;
  linear("ssm_out", name("out_proj"), hidden, width, false, 0, {scales.output});
}

void GgufWeightList::add_scan(const SelectiveScan& scan) {
  const int64_t hidden = config_.hidden_size, channels = scan.channels, state = scan.state, rank = scan.step_rank;
  const auto name = [&](std::string_view tensor) { return fmt::format("{}.{}", scan.module, tensor); };
  linear("ssm_in", name("in_proj"), 2 * channels, hidden, false);
  add("ssm_conv1d.weight", {channels, scan.taps}, {part(name("conv1d.weight"), {channels, 1, scan.taps})}).is_f32 =
      true;
  if (scan.conv_bias) add("ssm_conv1d.bias", name("conv1d.bias"), {channels});
  linear("ssm_x", name("x_proj"), rank + 2 * state, channels, false);
  norm("ssm_dt_norm", name("dt_layernorm"), rank);
  norm("ssm_b_norm", name("b_layernorm"), state);
  norm("ssm_c_norm", name("c_layernorm"), state);
  linear("ssm_dt", name("dt_proj"), channels, rank, true);
  GgufWeight& rate = add("ssm_a", name("A_log"), {channels, state});
  rate.is_rate = rate.is_f32 = true;
  add("ssm_d", name("D"), {channels});
  linear("ssm_out", name("out_proj"), hidden, channels, false);
}

}  // namespace spillway
