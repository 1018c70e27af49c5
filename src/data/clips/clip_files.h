// Files of a video dataset, each with some rows.
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

// One file. Any thread.
class ClipFile {
 public:
  virtual ~ClipFile() = default;

  [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
  [[nodiscard]] virtual const TensorNames& names() const = 0;
  // "FILE, row 2".
  [[nodiscard]] virtual std::string where(int64_t row) const = 0;
  // Of all rows. Throws InputError for what cannot be read as a row's header.
  [[nodiscard]] virtual std::vector<RowHeader> headers() const = 0;
  // Values in f32 and finite. Throws InputError naming row and tensor. REQUIRES: `values` is what headers() has said,
  // and check_row() has passed.
  [[nodiscard]] virtual std::vector<float> read(int64_t row, RowTensor which, const StoredValues& values) const = 0;
};

// By its name, FILE.parquet or FILE.safetensors. Throws InputError for another. `cursors` outlives it.
[[nodiscard]] std::unique_ptr<ClipFile> open_clip_file(const std::filesystem::path& path, PageCursors& cursors);

// What a dataset's `path` means: a file; what a pattern matches; the files in a folder at any depth, but for hidden
// ones and FastVideo's map_style_cache, in the order of their paths. Throws InputError where there is none.
[[nodiscard]] std::vector<std::filesystem::path> clip_files(const DatasetConfig& config);

}  // namespace spillway::data
