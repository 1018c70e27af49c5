#include "model/decoder/state_space_config.h"

#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "ops/causal_conv/causal_conv.h"
#include "ops/gated_delta_rule/gated_delta_rule.h"
#include "ops/selective_scan/selective_scan.h"

namespace spillway {
namespace {

constexpr int64_t kMaxStateHeads = 4096, kMaxExpand = 64, kMaxStateWidth = int64_t{1} << 20;

StateSteps read_steps(const JsonField& json) {
  const JsonField limit = json["time_step_limit"];
  if (limit.is_null()) return {};
  const std::vector<JsonField> ends = limit.elements();
  const auto is_infinite = [](const JsonField& end) {
    return end.is_object() && end["__float__"].string_or("") == "Infinity";
  };
  StateSteps steps;
  if (ends.size() == 2 && !ends[0].is_object()) {
    steps.least = ends[0].number();
    if (!is_infinite(ends[1])) steps.most = ends[1].number();
    if (steps.least >= 0 && steps.least < steps.most) return steps;
  }
  throw limit.bad("two numbers from 0 on, the first below the second", "correct them");
}

// Returns the width of all heads, 0 where the config does not say it.
int64_t read_width(const JsonField& json, const StateSpaceKeys& keys, int64_t hidden_size) {
  if (!keys.has_expand) return 0;
  const bool is_null = json.has(keys.width) && json[keys.width].is_null();
  if (!keys.width.empty() && !is_null) return json[keys.width].integer_or(keys.default_width, 1, kMaxStateWidth);
  return json["mamba_expand"].integer_or(2, 1, kMaxExpand) * hidden_size;
}

}  // namespace

GatedDelta read_state_space(const JsonField& json, const StateSpaceKeys& keys, int64_t hidden_size) {
  GatedDelta result{.heads = {.key_heads = json[keys.groups].integer_or(keys.default_groups, 1, kMaxStateHeads),
                              .value_heads = json[keys.heads].integer_or(keys.default_heads, 1, kMaxStateHeads),
                              .key_dim = json[keys.state].integer_or(keys.default_state, 1, ops::kMaxDeltaDim),
                              .rule = ops::StateRule::kAdds},
                    .taps = json[keys.taps].integer_or(4, 2, ops::kMaxTaps),
                    .conv_bias = json[keys.conv_bias].boolean_or(true),
                    .bias = json[keys.bias].boolean_or(false),
                    .steps = read_steps(json),
                    .module = "mamba"};
  ops::DeltaHeads& heads = result.heads;
  result.output_bias = keys.output_bias.empty() ? result.bias : json[keys.output_bias].boolean_or(false);
  const int64_t width = read_width(json, keys, hidden_size);
  const JsonField head_dim = json[keys.head_dim];
  const bool is_implied = head_dim.is_null() || (head_dim.is_string() && head_dim.string() == "auto");
  if (is_implied && keys.has_expand) {
    heads.value_dim = width / heads.value_heads;
  } else {
    heads.value_dim = keys.default_head_dim > 0 ? head_dim.integer_or(keys.default_head_dim, 1, ops::kMaxDeltaDim)
                                                : head_dim.integer(1, ops::kMaxDeltaDim);
  }
  if (keys.has_expand && result.value_width() != width)
    throw input_error(json.where(), "expected {} x {} to be {}, {}, got {}; check the numbers", keys.heads,
                      keys.head_dim, keys.width.empty() ? "mamba_expand x hidden_size" : keys.width, width,
                      result.value_width());
  if (heads.value_heads % heads.key_heads != 0)
    throw input_error(json.where(), "expected {} to divide {}, got {} and {}; check both numbers", keys.groups,
                      keys.heads, heads.key_heads, heads.value_heads);
  return result;
}

SelectiveScan read_selective_scan(const JsonField& json, int64_t hidden_size) {
  const JsonField rank = json["mamba_dt_rank"];
  const bool is_implied = rank.is_null() || (rank.is_string() && rank.string() == "auto");
  return {.channels = json["mamba_expand"].integer_or(2, 1, kMaxExpand) * hidden_size,
          .state = json["mamba_d_state"].integer_or(16, 1, ops::kMaxScanState),
          .step_rank = is_implied ? div_ceil(hidden_size, int64_t{16}) : rank.integer(1, kMaxStateWidth),
          .taps = json["mamba_d_conv"].integer_or(4, 2, ops::kMaxTaps),
          .conv_bias = json["mamba_conv_bias"].boolean_or(true),
          .bias = json["mamba_proj_bias"].boolean_or(false),
          .has_norms = true};
}

}  // namespace spillway
