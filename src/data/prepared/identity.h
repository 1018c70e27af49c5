// What rows are made from, as text: two jobs with the same text have the same rows.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "data/dataset_options.h"
#include "data/tokenizer.h"

namespace spillway::data {

// Options of datasets and rows, the data files by name, size and time of change, the tokenizer and templates by their
// content, and the version of the code that makes rows. Throws InputError for files that are not there.
[[nodiscard]] std::string rows_identity(std::span<const DatasetConfig> configs, const RowOptions& options,
                                        const std::filesystem::path& tokenizer, const SpecialTokenNames& special);

}  // namespace spillway::data
