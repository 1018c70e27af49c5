// A job's datasets, from files to training rows.
//
//   const Dataset train = load_datasets(config.datasets, options, tokenizer);
//   log_info("{} rows, {} tokens", train.rows.size(), train.summary.tokens);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/dataset_options.h"
#include "data/rows/row_collector.h"
#include "data/rows/row_table.h"
#include "text/tokenizer.h"

namespace spillway::data {

struct Dataset {
  RowTable rows;  // in file order, the datasets one after the other
  DatasetSummary summary;
};

// Options of reading that do not change the rows.
struct Preparation {
  int threads = 1;
  std::function<void(int64_t records)> progress{};  // where there is one: told now and then what has been read
};

// Reads and tokenises the datasets, and applies the length limits. By axolotl's rules, rows longer than sequence_len
// are dropped, truncated or an error, and rows shorter than min_sample_len are dropped; by TRL's, they are truncated.
// Rows without a target are dropped (except for TRL's packing). Throws InputError for files that are missing or
// unreadable (with the line), rows that lack a field, an unknown type, and if no row remains.
[[nodiscard]] Dataset load_datasets(std::span<const DatasetConfig> configs, const RowOptions& options,
                                    const text::Tokenizer& tokenizer, const Preparation& preparation = {});
// The same, adding one row after the other to a sink.
[[nodiscard]] DatasetSummary read_datasets(std::span<const DatasetConfig> configs, const RowOptions& options,
                                           const text::Tokenizer& tokenizer, const Preparation& preparation,
                                           RowSink& sink);

// Returns the summary of the first `records` records of a dataset without keeping their rows. Throws InputError.
[[nodiscard]] DatasetSummary summary_of_first(const DatasetConfig& config, const RowOptions& options,
                                              const text::Tokenizer& tokenizer, int64_t records);

// Returns the rows that the length rule of the options keeps, out of rows that were made with another rule: an
// evaluation may not pack as training does. Throws InputError for rows that are too long, if the options say so.
[[nodiscard]] RowTable rows_that_fit(const RowTable& rows, const RowOptions& options);

// Returns the error for datasets of which no row remains.
[[nodiscard]] InputError no_rows(std::span<const DatasetConfig> configs, const DatasetSummary& summary);

// The keys are rows_read, truncated, rows, tokens, tokens_cut, tokens_too_long, left_out (left_out_parts.h),
// joined_prompts, answers: [{rows, with_end}, ...], ends, lengths (length_tally.h), dropped: {empty, too_short,
// too_long, no_targets, duplicate}.
[[nodiscard]] nlohmann::ordered_json to_json(const DatasetSummary& summary);
// Reads the output of to_json(); throws nlohmann::json::exception for anything else.
[[nodiscard]] DatasetSummary summary_from_json(const nlohmann::ordered_json& json);

}  // namespace spillway::data
