// What rows are made from, as text: two jobs with the same text have the same rows.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset_options.h"
#include "text/tokenizer.h"

namespace spillway::data {

class StreamSource;

// Options of datasets and rows, the data files by name, size and time of change, the tokenizer and templates by their
// content, and the version of the code that makes rows. Throws InputError for files that are not there.
// `time` is what time_in_rows() says of them.
[[nodiscard]] std::string rows_identity(std::span<const DatasetConfig> configs, const RowOptions& options,
                                        const std::filesystem::path& tokenizer, const text::SpecialTokenNames& special,
                                        std::string_view time = "");

// As much of `options.now` as templates may show in the rows: empty for rows that no template makes, or one that does
// not ask for the time; the date, or date and time. REQUIRES: options.now.
[[nodiscard]] std::string time_in_rows(std::span<const DatasetConfig> configs, const RowOptions& options,
                                       const text::Tokenizer& tokenizer);

// A checksum of what the blocks of a stream depend on beside the files' content, so that a file may be corrected: the
// options of datasets, rows, packing and order.
[[nodiscard]] std::string stream_identity(const StreamSource& source);

}  // namespace spillway::data
