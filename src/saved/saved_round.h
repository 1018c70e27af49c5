// A round of online reinforcement learning in a checkpoint: what there is of a completion is JSON, and what there is of
// a token, which may be millions, tensors of spillway_state.safetensors, of one completion after the other.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "job/online/completion.h"
#include "saved/state.h"

namespace spillway::train {

// Whether a tensor of a checkpoint's state is a round's.
[[nodiscard]] bool is_of_round(std::string_view tensor);

// i32 or f32 [tokens]; none without elements.
[[nodiscard]] std::vector<TensorSpec> tensors_of(const Round& round);
// Appends all of each to a file that has them.
void append_tensors(const Round& round, SafetensorsWriter& writer);

// With numbers of tokens in place of what the tensors hold.
[[nodiscard]] nlohmann::ordered_json to_json(const Round& round);
// Also of what versions without tensors wrote, with lists in place of those numbers. Throws InputError for a tensor
// that differs from `sums`, and nlohmann::json::exception for JSON of anything else.
[[nodiscard]] Round round_from_json(const nlohmann::ordered_json& json, const SafetensorsFile& state,
                                    const TensorSums& sums);

}  // namespace spillway::train
