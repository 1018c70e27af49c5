// The rows of video datasets: FastVideo's Parquet files, and safetensors files that are a row each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/clips/clip.h"
#include "data/dataset_options.h"

namespace spillway::data {

// All rows, of which the headers (shapes, dtypes, what there is) are read and checked at once, and values on demand.
// Nothing of a row's values stays in memory; neither do open files, but for a few. Immutable; any thread may read.
//
// Errors: InputError that names file, row and tensor, for all that cannot be right: of the headers and, for safetensors
// files, the byte counts from the constructor; of the values, and of the byte counts in Parquet, from read().
class ClipRows {
 public:
  // Each dataset's `path` is a file, a pattern, or a folder in which files lie at any depth; files come in the order of
  // their paths. `skip`, `shards` and `weight` choose and repeat rows as they do elsewhere (dataset_records.h). `key`
  // names the datasets' config key where there are no rows. `num_latent_t`: frames that are kept, from the first; 0:
  // all.
  ClipRows(const std::vector<DatasetConfig>& datasets, const ClipDemands& demands, std::string_view key,
           int64_t num_latent_t = 0);
  ~ClipRows();
  ClipRows(ClipRows&&) noexcept;
  ClipRows& operator=(ClipRows&&) noexcept;

  // At least 1; a row that a weight repeats counts so often.
  [[nodiscard]] int64_t size() const;
  [[nodiscard]] const ClipHeader& header(int64_t row) const;
  // "clips/a.parquet, row 2" or "clips/000000.safetensors".
  [[nodiscard]] std::string where(int64_t row) const;
  // Reads a row's values. Takes memory for the row itself, the bytes of its largest tensor as stored, and decompressors
  // that are kept from row to row (parquet_bytes.h).
  [[nodiscard]] Clip read(int64_t row) const;
  // Of the rows' headers and order and of the files' names and sizes, for checkpoints: 16 hexadecimal digits.
  [[nodiscard]] std::string checksum() const;
  [[nodiscard]] const ClipDemands& demands() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spillway::data
