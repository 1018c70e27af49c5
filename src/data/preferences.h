// The rows of a job's preference datasets, and the file that `spillway preprocess` writes of them.
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

// Returns the rows of a table that load_datasets() or prepare_rows() made for an objective with completions.
[[nodiscard]] std::vector<PreferenceRow> preferences_of(const RowTable& rows);

// Removes from `rows` those that `others` have, too: the same tokens and label. Returns their number.
int64_t remove_known(std::span<const PreferenceRow> others, std::vector<PreferenceRow>& rows);

// Returns the number of tokens in prompts, and in prompts with each completion.
[[nodiscard]] int64_t count_tokens(std::span<const PreferenceRow> rows);

// Writes a JSON object per row and line: prompt_ids, chosen_ids and rejected_ids, or prompt_ids, completion_ids and
// label. The file appears when it is complete.
void write_preferences(const std::filesystem::path& path, std::span<const PreferenceRow> rows);

}  // namespace spillway::data
