// What rows are made from, as text: two jobs with the same text have the same rows.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "data/dataset_options.h"
#include "data/tokenizer.h"

namespace spillway::data {

class StreamSource;

// Options of datasets and rows, the data files by name, size and time of change, the tokenizer and templates by their
// content, and the version of the code that makes rows. Throws InputError for files that are not there.
[[nodiscard]] std::string rows_identity(std::span<const DatasetConfig> configs, const RowOptions& options,
                                        const std::filesystem::path& tokenizer, const SpecialTokenNames& special);

// A checksum of what the blocks of a stream depend on beside the files' content, so that a file may be corrected: the
// options of datasets, rows, packing and order.
[[nodiscard]] std::string stream_identity(const StreamSource& source);

}  // namespace spillway::data
