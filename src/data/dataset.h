// A job's datasets, from files to training rows.
//
//   const Dataset train = load_datasets(config.datasets, options, tokenizer);
//   log_info("{} rows, {} tokens", train.rows.size(), train.summary.tokens);
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "data/rows/row.h"
#include "data/tokenizer.h"

namespace spillway::data {

struct DatasetSummary {
  int64_t rows_read = 0;
  int64_t truncated = 0;
  int64_t tokens = 0;  // of the rows that are kept
  struct Dropped {
    int64_t empty = 0, too_short = 0, too_long = 0, no_targets = 0, duplicate = 0;
  } dropped;
};

struct Dataset {
  std::vector<Row> rows;  // in file order, the datasets one after the other; the first label of a row is ignored
  DatasetSummary summary;
};

// Reads, tokenises and cuts to length. By axolotl's rules rows longer than sequence_len are dropped, truncated or an
// error and those shorter than min_sample_len are dropped; by TRL's they are truncated. Rows without a target are
// dropped (but for TRL's packing). Throws InputError: for files that are not there or not readable (with the line),
// rows that lack a field, an unknown type, and where no row remains.
[[nodiscard]] Dataset load_datasets(std::span<const DatasetConfig> configs, const RowOptions& options,
                                    const Tokenizer& tokenizer);

// The files that a dataset means: its path, or data_files in it, or what lies in the folder, by split. Local files
// only.
[[nodiscard]] std::vector<std::filesystem::path> dataset_files(const DatasetConfig& config);

// What `spillway preprocess` writes. A line of NAME.jsonl is what the trainer takes as one sequence stream: `lines`
// gives the rows of each (one row, or the rows of a bin). Writes input_ids, labels, position_ids and seq_lengths; the
// file appears when it is complete.
void write_rows(const std::filesystem::path& path, std::span<const Row> rows,
                std::span<const std::vector<int64_t>> lines);

// rows_read, truncated, tokens, dropped: {empty, too_short, too_long, no_targets, duplicate}.
[[nodiscard]] nlohmann::ordered_json to_json(const DatasetSummary& summary);

}  // namespace spillway::data
