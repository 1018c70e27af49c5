// Reads from config.json which layers see only a window of the tokens before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "model/decoder/config.h"

namespace spillway {

// The bound of positions and windows.
inline constexpr int64_t kMaxPositions = int64_t{1} << 40;

// Returns `sliding_window`, `missing` where the file leaves it out; 0 for an explicit null.
[[nodiscard]] int64_t window_of(const JsonField& json, int64_t missing = 4096);

// Gives all layers the same window.
void set_windows(int64_t window, DecoderConfig& config);

// Sets the windows from `layer_types`, which must name as many layers as there are, full_attention or
// sliding_attention. `window`: 0 for none, which is an error at json.where() beside a layer that has one; `needed` are
// the keys that say how long it is.
void set_layer_windows(const JsonField& json, const std::vector<std::string>& layer_types, int64_t window,
                       std::string_view needed, DecoderConfig& config);

// Qwen's: only with use_sliding_window, for the layers that layer_types names or, as older files have it, for those
// from max_window_layers on.
void read_layer_windows(const JsonField& json, DecoderConfig& config);

// Gemma's: for the layers that layer_types names or, without it, all but every `pattern`-th. `missing`: as above.
void read_patterned_windows(const JsonField& json, int64_t pattern, DecoderConfig& config, int64_t missing = 4096);

}  // namespace spillway
