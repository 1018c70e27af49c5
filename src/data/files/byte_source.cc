#include "data/files/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"

namespace spillway::data {
namespace {

constexpr size_t kInputBytes = size_t{1} << 17;
constexpr std::string_view kGzip = "\x1f\x8b", kZstandard = "\x28\xb5\x2f\xfd";

// A buffer of compressed input.
class Input {
 public:
  Input(ByteSource source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), buffer_(kInputBytes) {}

  // Reads until there are at least `size` bytes, or the input ends.
  void fill(size_t size) {
    if (end_ - at_ >= size) return;
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    end_ -= std::exchange(at_, 0);
    while (end_ < size) {
      const size_t count = source_(buffer_.data() + end_, buffer_.size() - end_);
      if (count == 0) return;
      end_ += count;
    }
  }
  [[nodiscard]] std::string_view rest() const { return {buffer_.data() + at_, end_ - at_}; }
  void take(size_t size) { at_ += size; }
  [[nodiscard]] const std::string& name() const { return name_; }

  [[noreturn]] void fail(std::string_view format, std::string_view reason) const {
    throw input_error(name_, "expected {} data, got {}; make or download the file again", format, reason);
  }

 private:
  ByteSource source_;
  std::string name_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
};

// Members one after the other, as gzip allows.
class GzipBytes {
 public:
  explicit GzipBytes(Input input) : input_(std::move(input)) {
    constexpr int kWindowWithHeader = 15 + 16;
    if (inflateInit2(&stream_, kWindowWithHeader) != Z_OK)
      throw machine_error(input_.name(), "expected memory for decompression, got none; free some");
  }
  ~GzipBytes() { inflateEnd(&stream_); }
  GzipBytes(GzipBytes&&) = delete;

  size_t read(char* into, size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(into);
    stream_.avail_out = static_cast<uInt>(size);
    while (stream_.avail_out == size) {
      input_.fill(1);
      const std::string_view rest = input_.rest();
      if (rest.empty()) {
        if (!at_member_) return 0;
        input_.fail("gzip", "a file that is cut short");
      }
      if (!at_member_ && rest.front() == '\0') {  // tapes and blocks are padded with zeros
        input_.take(1);
        continue;
      }
      at_member_ = true;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
      stream_.avail_in = static_cast<uInt>(rest.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      input_.take(rest.size() - stream_.avail_in);
      if (status == Z_STREAM_END) {
        at_member_ = false;
        inflateReset(&stream_);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        input_.fail("gzip", quote(stream_.msg != nullptr ? stream_.msg : "broken data"));
      }
    }
    return size - stream_.avail_out;
  }

 private:
  Input input_;
  z_stream stream_{};
  bool at_member_ = false;
};

class ZstandardBytes {
 public:
  explicit ZstandardBytes(Input input) : input_(std::move(input)) {
    if (!stream_) throw machine_error(input_.name(), "expected memory for decompression, got none; free some");
  }

  size_t read(char* into, size_t size) {
    ZSTD_outBuffer out{into, size, 0};
    while (out.pos == 0) {
      input_.fill(1);
      const std::string_view rest = input_.rest();
      if (rest.empty() && complete_) return 0;
      ZSTD_inBuffer in{rest.data(), rest.size(), 0};
      const size_t status = ZSTD_decompressStream(stream_.get(), &out, &in);
      input_.take(in.pos);
      if (ZSTD_isError(status) != 0) input_.fail("Zstandard", quote(ZSTD_getErrorName(status)));
      complete_ = status == 0;
      if (rest.empty() && out.pos == 0) input_.fail("Zstandard", "a file that is cut short");
    }
    return out.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  Input input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_{ZSTD_createDStream()};
  bool complete_ = false;  // a frame ended
};

ByteSource plain_bytes(const std::filesystem::path& path) {
  const auto file = std::make_shared<ReadFile>(path);
  return [file, at = int64_t{0}](char* into, size_t size) mutable {
    const size_t count = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(size), file->size() - at));
    file->read(at, std::as_writable_bytes(std::span(into, count)));
    at += static_cast<int64_t>(count);
    return count;
  };
}

}  // namespace

ByteSource decompress(ByteSource source, std::string name) {
  Input input(std::move(source), std::move(name));
  input.fill(kZstandard.size());
  if (input.rest().starts_with(kGzip)) {
    return [bytes = std::make_shared<GzipBytes>(std::move(input))](char* into, size_t size) {
      return bytes->read(into, size);
    };
  }
  if (input.rest().starts_with(kZstandard)) {
    return [bytes = std::make_shared<ZstandardBytes>(std::move(input))](char* into, size_t size) {
      return bytes->read(into, size);
    };
  }
  return [plain = std::make_shared<Input>(std::move(input))](char* into, size_t size) {
    plain->fill(1);
    const size_t count = plain->rest().copy(into, size);
    plain->take(count);
    return count;
  };
}

ByteSource open_bytes(const std::filesystem::path& path) { return decompress(plain_bytes(path), path.string()); }

}  // namespace spillway::data
