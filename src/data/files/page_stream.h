// The content of a page of a Parquet file, decompressed as it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/files/byte_source.h"
#include "data/files/parquet_layout.h"
#include "io/file.h"

namespace spillway::data {

// Not thread-safe. Throws InputError, also while reading, for data that is corrupt or truncated.
class PageStream {
 public:
  // Reads the `bytes` of the file from `offset` on, which decompress to `unpacked_bytes`. Holds a buffer, and the
  // window of the decompressor. REQUIRES: codec is not kOther.
  PageStream(std::shared_ptr<const ReadFile> file, int64_t offset, int64_t bytes, PageCodec codec,
             int64_t unpacked_bytes);

  // Fills `into`.
  void read(std::span<std::byte> into);
  void skip(int64_t bytes);
  // Reads a little-endian number of 32 bits.
  [[nodiscard]] uint32_t read_number();
  // Returns the number of bytes that are left.
  [[nodiscard]] int64_t left() const { return unpacked_bytes_ - at_; }

 private:
  void take(int64_t bytes);

  std::shared_ptr<const ReadFile> file_;
  int64_t offset_, unpacked_bytes_, at_ = 0;
  ByteSource source_;  // empty where the page is stored as it is
};

}  // namespace spillway::data
