// What is likely wrong with a job's data, told from what became of it: each with its remedy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace spillway::train {

// Texts for a log, `key` (`datasets`, `test_datasets`) before each. One where over a tenth of the rows that were read
// are dropped, duplicates aside, which the config asked to drop; one where over a tenth are truncated; one where a chat
// template leaves parts of conversations out; one where the end of an answer is a target in no row (of `datasets`); one
// where the config masks prompts and yet over 95% of the tokens are targets (of up to 4096 rows, evenly over all). Any
// thread.
[[nodiscard]] std::vector<std::string> data_warnings(std::string_view key,
                                                     const std::vector<data::DatasetConfig>& datasets,
                                                     const data::RowOptions& options, const data::Dataset& read);

}  // namespace spillway::train
