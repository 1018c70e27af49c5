// Columns of bytes of a Parquet file, value by value, in any order, in bounded memory.
//
// A value may have megabytes and a page gigabytes: pyarrow puts all values of a row group into one page, its
// dictionary, unless it is told otherwise. So no page is held: it is unpacked as a stream up to the value. Pages that
// do not have the value cost nothing but their headers; what comes before it in its own page is unpacked and thrown
// away, unless the page is stored as it is. Some such streams are kept for values further on.
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
// window of its decompressor (pyarrow's Zstandard: 0.5 MiB at its usual level). Any thread.
class PageCursors {
 public:
  // The one nearest before `value`; null where there is none.
  [[nodiscard]] std::unique_ptr<PageCursor> take(const void* chunk, int64_t page, int64_t value);
  void give_back(std::unique_ptr<PageCursor> cursor);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PageCursor>> cursors_;  // the one that was used last at the end
};

class ParquetBytes {
 public:
  // Reads the footer. Throws InputError for a file that is none, and for columns that are no bytes, or compressed or
  // nested in a way that this cannot read; a column may be missing (ParquetLayout). `cursors` outlives this.
  ParquetBytes(std::filesystem::path path, const std::vector<std::string>& columns, PageCursors& cursors);
  ~ParquetBytes();
  ParquetBytes(ParquetBytes&&) = delete;

  [[nodiscard]] const ParquetLayout& layout() const { return layout_; }
  [[nodiscard]] int64_t rows() const { return rows_; }

  // Where a value of so many bytes goes, or -1 for null, or where the column is not there. May throw.
  using Room = std::function<std::span<std::byte>(int64_t bytes)>;
  // Reads a value into what `room` returns for its size. Throws InputError. Any thread. REQUIRES: the row is there.
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
