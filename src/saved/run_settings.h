// The mathematics of a job as names and values: what may change when a run goes on, and is then said.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <string_view>

#include "job/job.h"
#include "saved/training_length.h"

namespace spillway::train {

// Name of a config key -> its value as it takes effect. Not those that make other rows, which a checkpoint refuses by
// itself.
using RunSettings = std::map<std::string, std::string>;
[[nodiscard]] RunSettings settings_of(const Job& job, const TrainingLength& length);

// Those of them that a forward pass depends on: the adapter, the base's storage, the precision.
[[nodiscard]] RunSettings forward_settings_of(const Job& job);

// Those that a checkpoint has. A version that did not write a setting says nothing of it: it may be any.
[[nodiscard]] RunSettings settings_from_json(const nlohmann::ordered_json& json);

// Throws InputError where the tensors of a run with the old settings are others: for the adapter, its rank, the
// optimizer and the precision, which decides which master weights there are; and where another model was computed.
// `where` names what has the old ones.
void check_same_tensors(const RunSettings& before, const RunSettings& now, std::string_view where);

// One warning a value that is now another.
void warn_of_changes(const RunSettings& before, const RunSettings& now, std::string_view where);

}  // namespace spillway::train
