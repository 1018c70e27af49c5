// Texts that identify the input of rows: two jobs with the same text have the same rows.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset_options.h"
#include "text/tokenizer.h"

namespace spillway::data {

class StreamSource;

// Returns a text of the options of datasets and rows, the data files by name and version, the tokenizer
// and templates by their content, and the version of the code that makes rows. `time` is the result of time_in_rows()
// for them. Throws InputError for missing files.
[[nodiscard]] std::string rows_identity(std::span<const DatasetConfig> configs, const RowOptions& options,
                                        const std::filesystem::path& tokenizer, const text::SpecialTokenNames& special,
                                        std::string_view time = "");

// Returns as much of `options.now` as templates may show in the rows: empty for rows without a template, or with one
// that does not ask for the time; the date; or date and time. REQUIRES: options.now.
[[nodiscard]] std::string time_in_rows(std::span<const DatasetConfig> configs, const RowOptions& options,
                                       const text::Tokenizer& tokenizer);

// Returns a checksum of the options that the blocks of a stream depend on: those of datasets, rows, packing and order.
// The content of files is not part of it, so that a file may be corrected.
[[nodiscard]] std::string stream_identity(const StreamSource& source);

}  // namespace spillway::data
