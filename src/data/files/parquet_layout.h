// The layout of the columns of bytes of a Parquet file, as its footer says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::data {

enum class PageCodec { kNone, kSnappy, kGzip, kBrotli, kZstd, kLz4, kOther };

// The pages of a column in a row group, one after the other: possibly a dictionary, then values.
struct ColumnChunk {
  bool is_there = false;
  int64_t first_byte = 0, bytes = 0;  // in the file, with the pages' headers
  PageCodec codec = PageCodec::kNone;
  std::string codec_name;
  bool is_bytes = false;     // BYTE_ARRAY, or FIXED_LEN_BYTE_ARRAY
  int64_t fixed_bytes = 0;   // of each value of the latter
  int max_definition = 0;    // 1 where values may be null
  bool is_repeated = false;  // a list, or in one
};

struct ParquetLayout {
  struct RowGroup {
    int64_t rows = 0;
    std::vector<ColumnChunk> chunks;  // of the columns that were asked for, in that order
  };
  std::vector<std::string> columns;  // all at the top, in the file's order
  std::vector<RowGroup> groups;
};

}  // namespace spillway::data
