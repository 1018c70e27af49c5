#include "data/files/page_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/sizes.h"
#include "data/files/arrow_loader.h"
#include "data/files/block_codecs.h"

namespace spillway::data {
namespace {

ByteSource part_of(std::shared_ptr<const ReadFile> file, int64_t offset, int64_t bytes) {
  return [file = std::move(file), offset, end = offset + bytes](char* into, size_t size) mutable {
    const auto count = std::min(static_cast<int64_t>(size), end - offset);
    file->read(offset, std::as_writable_bytes(span_of(into, count)));
    offset += count;
    return static_cast<size_t>(count);
  };
}

ByteSource unpack(ByteSource packed, PageCodec codec, const std::filesystem::path& path) {
  switch (codec) {
    case PageCodec::kSnappy:
      return unpack_snappy(std::move(packed), path.string());
    case PageCodec::kLz4:
      return unpack_lz4(std::move(packed), path.string());
    case PageCodec::kBrotli:
      return *std::unique_ptr<ByteSource>(arrow_library(path).unpack_brotli(std::move(packed), path.string()));
    default:
      return decompress(std::move(packed), path.string());
  }
}

}  // namespace

PageStream::PageStream(std::shared_ptr<const ReadFile> file, int64_t offset, int64_t bytes, PageCodec codec,
                       int64_t unpacked_bytes)
    : file_(std::move(file)), offset_(offset), unpacked_bytes_(unpacked_bytes) {
  if (codec == PageCodec::kNone) {
    unpacked_bytes_ = std::min(unpacked_bytes, bytes);
  } else if (unpacked_bytes > 0) {
    source_ = unpack(part_of(file_, offset, bytes), codec, file_->path());
  }
}

void PageStream::take(int64_t bytes) {
  if (bytes > left())
    throw input_error(file_->path().string(),
                      "expected {} more bytes in a page, got {}; the file is broken: make or download it again", bytes,
                      left());
  at_ += bytes;
}

void PageStream::read(std::span<std::byte> into) {
  const int64_t from = offset_ + at_;
  take(std::ssize(into));
  if (!source_) return file_->read(from, into);
  auto* to = reinterpret_cast<char*>(into.data());
  for (size_t left = into.size(); left > 0;) {
    const size_t count = source_(to, left);
    if (count == 0)
      throw input_error(file_->path().string(),
                        "expected a page of {} bytes, got one that ends {} before; the file is broken: make or "
                        "download it again",
                        unpacked_bytes_, left);
    to += count;
    left -= count;
  }
}

void PageStream::skip(int64_t bytes) {
  if (!source_) return take(bytes);
  std::array<std::byte, 1 << 14> scratch;
  for (int64_t left = bytes; left > 0;) {
    const auto count = std::min<int64_t>(left, scratch.size());
    read(first_of(scratch, count));
    left -= count;
  }
}

uint32_t PageStream::read_number() {
  uint32_t number = 0;
  read(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace spillway::data
