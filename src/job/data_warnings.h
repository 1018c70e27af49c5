// Warnings about likely mistakes in a job's data, found in the rows that were read. Each says what to do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace spillway::train {

// Returns warnings for a log, each with `key` (`datasets`, `test_datasets`) before it:
//
// - if over a tenth of the rows that were read are dropped, not counting duplicates, which the config asks to drop;
// - if over a tenth are truncated;
// - if a chat template leaves parts of conversations out;
// - if the end of an answer is a target in no row (of `datasets`);
// - if the config masks prompts and yet over 95% of the tokens are targets (of up to 4096 rows, evenly spread), or asks
//   for prompts, of rows without a type, and yet fewer are.
//
// Any thread may call it.
[[nodiscard]] std::vector<std::string> data_warnings(std::string_view key,
                                                     const std::vector<data::DatasetConfig>& datasets,
                                                     const data::RowOptions& options, const data::Dataset& read);

}  // namespace spillway::train
