// A round of online reinforcement learning in a checkpoint. The fields of completions are JSON; those of tokens, of
// which there may be millions, are tensors in spillway_state.safetensors, the completions concatenated.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "job/online/completion.h"
#include "saved/state.h"

namespace spillway::train {

// Returns true if a tensor of a checkpoint's state belongs to a round.
[[nodiscard]] bool is_of_round(std::string_view tensor);

// Returns the tensors of a round, i32 or f32 [tokens], without empty ones.
[[nodiscard]] std::vector<TensorSpec> tensors_of(const Round& round);
// Appends the content of each of these tensors to a file that declares them.
void append_tensors(const Round& round, SafetensorsWriter& writer);

// Returns the JSON of a round, with numbers of tokens in place of the content of the tensors.
[[nodiscard]] nlohmann::ordered_json to_json(const Round& round);
// Reads a round. Also reads rounds of versions without tensors, which have lists in place of the numbers. Throws
// InputError for a tensor that differs from `sums`, and nlohmann::json::exception for invalid JSON.
[[nodiscard]] Round round_from_json(const nlohmann::ordered_json& json, const SafetensorsFile& state,
                                    const TensorSums& sums);

}  // namespace spillway::train
