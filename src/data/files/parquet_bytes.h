// Reads columns of bytes of a Parquet file, value by value, in any order, in bounded memory.
//
// A value may have megabytes and a page gigabytes: by default pyarrow puts all values of a row group into one page, its
// dictionary. So pages are not held in memory but decompressed as streams up to the value. Other pages cost only the
// reading of their headers. In the page of the value, what comes before it is decompressed and discarded, unless the
// page is uncompressed. Some streams are kept for later values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/files/page_header.h"
#include "data/files/page_stream.h"
#include "data/files/parquet_layout.h"

namespace spillway::data {

// A page that has been read up to one of its values.
struct PageCursor {
  const void* chunk = nullptr;  // whose page it is
  int64_t page = 0;
  std::unique_ptr<PageStream> stream;
  int64_t value = 0;  // that comes next
};

// Cursors of many files that wait to be used again: the 16 used last, each with an open file, its buffers and the
// window of its decompressor (pyarrow's Zstandard: 0.5 MiB at its default level). Thread-safe.
class PageCursors {
 public:
  // Returns the cursor nearest before `value`; null if there is none.
  [[nodiscard]] std::unique_ptr<PageCursor> take(const void* chunk, int64_t page, int64_t value);
  void give_back(std::unique_ptr<PageCursor> cursor);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PageCursor>> cursors_;  // the one that was used last at the end
};

class ParquetBytes {
 public:
  // Reads the footer. Throws InputError for a file that is not Parquet, and for columns that are not bytes, or are
  // compressed or nested in an unsupported way; a column may be missing (ParquetLayout). `cursors` must outlive this
  // object.
  ParquetBytes(std::filesystem::path path, const std::vector<std::string>& columns, PageCursors& cursors);
  ~ParquetBytes();
  ParquetBytes(ParquetBytes&&) = delete;

  [[nodiscard]] const ParquetLayout& layout() const { return layout_; }
  [[nodiscard]] int64_t rows() const { return rows_; }

  // Returns the memory for a value of so many bytes; -1 for null, or if the column is missing. May throw.
  using Room = std::function<std::span<std::byte>(int64_t bytes)>;
  // Reads a value into the memory that `room` returns for its size. Thread-safe. Throws InputError. REQUIRES: the row
  // exists.
  void read(size_t column, int64_t row, const Room& room) const;

 private:
  struct Page;
  struct Chunk;

  void check_columns(const std::vector<std::string>& columns, int64_t file_bytes) const;
  [[nodiscard]] Chunk& opened(size_t group, size_t column) const;
  void find_pages(Chunk& chunk, const ReadFile& file, int64_t rows) const;
  void find_entries(const Chunk& chunk, Page& page, const std::shared_ptr<const ReadFile>& file) const;
  [[nodiscard]] PageStream values_of(const Chunk& chunk, const Page& page, std::shared_ptr<const ReadFile> file) const;
  void read_value(const Chunk& chunk, int64_t page, int64_t value, const std::shared_ptr<const ReadFile>& file,
                  const Room& room) const;

  std::filesystem::path path_;
  ParquetLayout layout_;
  int64_t rows_ = 0;
  std::vector<int64_t> group_ends_;  // rows up to the end of each row group
  PageCursors& cursors_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Chunk>> chunks_;  // group after group; null until one is needed
};

}  // namespace spillway::data
