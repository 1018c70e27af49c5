// Reads what the keys of a config.json say of the state spaces (Mamba and Mamba-2) of a model's layers.
#pragma once

#include <string_view>

#include "base/json_field.h"
#include "model/decoder/config.h"
#include "model/decoder/layer.h"

namespace spillway {

// The keys of a state space's sizes, which families name differently, and what transformers takes where they are
// missing.
struct StateSpaceKeys {
  std::string_view heads = "mamba_n_heads", groups = "mamba_n_groups", state = "mamba_d_state";
  std::string_view head_dim = "mamba_d_head", taps = "mamba_d_conv";
  std::string_view conv_bias = "mamba_conv_bias", bias = "mamba_proj_bias";
  std::string_view output_bias{};  // of the last projection, where not as of the first
  std::string_view width{};        // of all heads, where not null, in place of what mamba_expand makes
  int64_t default_heads = 128, default_groups = 1, default_state = 256;
  int64_t default_width = 0;
  int64_t default_head_dim = 0;  // 0: it is needed, or follows from the width
  bool has_expand = true;        // mamba_expand times hidden_size is the width of all heads
};

// Returns the sizes of state spaces, and the bounds of their steps that time_step_limit says. Throws InputError where
// the heads do not make up the width, where the groups do not divide the heads, and for bounds that leave no step.
[[nodiscard]] GatedDelta read_state_space(const JsonField& json, const StateSpaceKeys& keys, int64_t hidden_size);

// Returns what Jamba's keys say of its selective scans; transformers' defaults where they are missing.
[[nodiscard]] SelectiveScan read_selective_scan(const JsonField& json, int64_t hidden_size);

}  // namespace spillway
