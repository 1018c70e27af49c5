// The files of a video dataset, each with some rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/clips/row_header.h"
#include "data/dataset_options.h"
#include "data/files/parquet_bytes.h"

namespace spillway::data {

// A file with rows. Any thread may use it.
class ClipFile {
 public:
  virtual ~ClipFile() = default;

  [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
  [[nodiscard]] virtual const TensorNames& names() const = 0;
  // "FILE, row 2".
  [[nodiscard]] virtual std::string where(int64_t row) const = 0;
  // Returns the headers of all rows. Throws InputError for an invalid header.
  [[nodiscard]] virtual std::vector<RowHeader> headers() const = 0;
  // Returns the values of a tensor, in f32 and finite. Throws InputError naming row and tensor. REQUIRES: `values` is
  // from headers(), and check_row() has passed.
  [[nodiscard]] virtual std::vector<float> read(int64_t row, RowTensor which, const StoredValues& values) const = 0;
};

// Opens FILE.parquet or FILE.safetensors. Throws InputError for any other name. `cursors` must outlive the result.
[[nodiscard]] std::unique_ptr<ClipFile> open_clip_file(const std::filesystem::path& path, PageCursors& cursors);

// Returns the files that a dataset's `path` names, in the order of their paths: a file; the matches of a pattern; or
// the files in a folder at any depth, except hidden ones and FastVideo's map_style_cache. Throws InputError if there
// are none.
[[nodiscard]] std::vector<std::filesystem::path> clip_files(const DatasetConfig& config);

}  // namespace spillway::data
