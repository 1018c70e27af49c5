// The content of a page of a Parquet file, unpacked as it is read.
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

// One thread at a time. Throws InputError, also later, for data that is broken or cut short.
class PageStream {
 public:
  // The `bytes` of the file from `offset` on, which unpack to `unpacked_bytes`. Holds a buffer, and the window of what
  // unpacks. REQUIRES: codec is not kOther.
  PageStream(std::shared_ptr<const ReadFile> file, int64_t offset, int64_t bytes, PageCodec codec,
             int64_t unpacked_bytes);

  // Fills `into`.
  void read(std::span<std::byte> into);
  void skip(int64_t bytes);
  // Little-endian, 32 bits.
  [[nodiscard]] uint32_t read_number();
  // Bytes that are still to come.
  [[nodiscard]] int64_t left() const { return unpacked_bytes_ - at_; }

 private:
  void take(int64_t bytes);

  std::shared_ptr<const ReadFile> file_;
  int64_t offset_, unpacked_bytes_, at_ = 0;
  ByteSource source_;  // empty where the page is stored as it is
};

}  // namespace spillway::data
