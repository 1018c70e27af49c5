// The settings of a job that its results depend on, as names and values. They may change when a run is resumed, which
// is reported.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

#include "job/job.h"
#include "job/settings.h"
#include "saved/training_length.h"

namespace spillway::train {

[[nodiscard]] RunSettings settings_of(const Job& job, const TrainingLength& length);

// Returns the settings that a forward pass depends on: the adapter, the storage of the base, the precision.
[[nodiscard]] RunSettings forward_settings_of(const Job& job);

// Returns the settings in a checkpoint. A setting that the version did not write yet is missing, and may have any
// value.
[[nodiscard]] RunSettings settings_from_json(const nlohmann::ordered_json& json);

// Sets the size of the batches of a run with these settings; of a version that did not write them the size stays.
void take_batches(const RunSettings& settings, EpochSize& size);

// Throws InputError if the tensors of a run with the settings `before` differ: if the adapter, its rank, the optimizer
// or the precision, which decides which master weights there are, differ, or if another model was computed. `where`
// names the holder of the old settings.
void check_same_tensors(const RunSettings& before, const RunSettings& now, std::string_view where);

// Logs a warning for each value that differs.
void warn_of_changes(const RunSettings& before, const RunSettings& now, std::string_view where);

}  // namespace spillway::train
