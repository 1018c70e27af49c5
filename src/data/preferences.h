// The rows of a job's preference datasets, and how `spillway preprocess` writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/rows/preference_rows.h"

namespace spillway::data {

struct Preferences {
  std::vector<PreferenceRow> rows;  // in file order; where pairs become unpaired rows, as TRL orders them: of every
                                    // 1000 records first the chosen completions
  DatasetSummary summary;
};

// Out of the joined rows that load_datasets() and prepare_rows() have for an objective with completions.
[[nodiscard]] std::vector<PreferenceRow> preferences_of(const RowTable& rows);

// Of prompts, and of prompts with each completion.
[[nodiscard]] int64_t count_tokens(std::span<const PreferenceRow> rows);

// A line of JSON a row: prompt_ids, chosen_ids and rejected_ids, or prompt_ids, completion_ids and label. The file
// appears when it is complete.
void write_preferences(const std::filesystem::path& path, std::span<const PreferenceRow> rows);

}  // namespace spillway::data
