// The rows of video datasets: FastVideo's Parquet files, and safetensors files with one row each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/clips/clip.h"
#include "data/dataset_options.h"

namespace spillway::data {

// Reads and checks the headers of all rows (shapes, dtypes, present tensors) at once, and their values on demand. Keeps
// no values in memory and only a few files open. Immutable; any thread may read.
//
// Throws InputError that names file, row and tensor for all invalid data: the constructor for headers and, in
// safetensors files, byte counts; read() for values and, in Parquet files, byte counts.
class ClipRows {
 public:
  // Each dataset's `path` is a file, a pattern, or a folder whose files may lie at any depth; files come in the order
  // of their paths. `skip`, `shards` and `weight` select and repeat rows as for other datasets (dataset_records.h).
  // `key` is the config key that an error names if there are no rows. `num_latent_t` is the number of frames to keep
  // from the start; 0: all.
  ClipRows(const std::vector<DatasetConfig>& datasets, const ClipDemands& demands, std::string_view key,
           int64_t num_latent_t = 0);
  ~ClipRows();
  ClipRows(ClipRows&&) noexcept;
  ClipRows& operator=(ClipRows&&) noexcept;

  // The number of rows, at least 1. A row that a weight repeats counts each time.
  [[nodiscard]] int64_t size() const;
  [[nodiscard]] const ClipHeader& header(int64_t row) const;
  // "clips/a.parquet, row 2" or "clips/000000.safetensors".
  [[nodiscard]] std::string where(int64_t row) const;
  // Reads the values of a row. Takes memory for the row, the stored bytes of its largest tensor, and decompressors that
  // are kept between rows (parquet_bytes.h).
  [[nodiscard]] Clip read(int64_t row) const;
  // Returns a checksum of the headers of the rows, their order, and the names and sizes of the files, for checkpoints:
  // 16 hexadecimal digits.
  [[nodiscard]] std::string checksum() const;
  [[nodiscard]] const ClipDemands& demands() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spillway::data
