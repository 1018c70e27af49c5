#include "data/files/block_codecs.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::data {
namespace {

constexpr size_t kHistoryBytes = size_t{1} << 16, kAheadBytes = size_t{1} << 18;

// The common part of both formats: literal bytes, and copies of earlier bytes.
class BlockBytes {
 public:
  BlockBytes(ByteSource source, std::string name, std::string_view format)
      : source_(std::move(source)), name_(std::move(name)), format_(format), input_(kAheadBytes) {
    output_.resize(kHistoryBytes + kAheadBytes);
  }
  virtual ~BlockBytes() = default;
  BlockBytes(BlockBytes&&) = delete;

  size_t read(char* into, size_t size) {
    while (taken_ == made_) {
      make_room();
      if (!advance()) return 0;
    }
    const size_t count = std::min(size, made_ - taken_);
    std::memcpy(into, output_.data() + taken_, count);
    taken_ += count;
    return count;
  }

 protected:
  // Reads the next element and calls literal() or copy(). Returns false at the end. Called once the last element is
  // done.
  virtual bool next() = 0;

  void literal(size_t bytes) { literal_ = bytes; }
  void copy(size_t offset, size_t bytes) {
    if (offset == 0 || offset > std::min(made_, kHistoryBytes) || offset > total_)
      fail("a copy of bytes that are not there");
    offset_ = offset;
    copy_ = bytes;
  }

  [[nodiscard]] bool at_end() {
    if (at_ == end_) {
      at_ = 0;
      end_ = source_(input_.data(), input_.size());
    }
    return at_ == end_;
  }
  uint8_t take() {
    if (at_end()) fail("a block that is cut short");
    return static_cast<uint8_t>(input_[at_++]);
  }
  // Little-endian.
  size_t take(int bytes) {
    size_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= size_t{take()} << (8 * i);
    return value;
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw input_error(name_, "expected {} data, got {}; make or download the file again", format_, what);
  }

 private:
  // Keeps the history in front.
  void make_room() {
    if (output_.size() - made_ >= kAheadBytes / 2) return;
    const size_t kept = std::min(made_, kHistoryBytes);
    std::memmove(output_.data(), output_.data() + made_ - kept, kept);
    taken_ = made_ = kept;
  }

  // Produces at least a byte of output, or reads the next literals and copies. Returns false at the end.
  bool advance() {
    const size_t room = output_.size() - made_;
    if (literal_ > 0) {
      if (at_end()) fail("a block that is cut short");
      const size_t count = std::min({literal_, room, end_ - at_});
      std::memcpy(output_.data() + made_, input_.data() + at_, count);
      at_ += count;
      literal_ -= count;
      add(count);
      return true;
    }
    if (copy_ > 0) {
      const size_t count = std::min(copy_, room);
      char* const to = output_.data() + made_;
      if (offset_ >= count) {
        std::memcpy(to, to - offset_, count);
      } else {
        for (size_t i = 0; i < count; ++i) to[i] = (to - offset_)[i];  // bytes may repeat those just made
      }
      copy_ -= count;
      add(count);
      return true;
    }
    return next();
  }

  void add(size_t count) {
    made_ += count;
    total_ += count;
  }

  ByteSource source_;
  std::string name_;
  std::string_view format_;
  std::vector<char> input_, output_;
  size_t at_ = 0, end_ = 0;      // of input_
  size_t taken_ = 0, made_ = 0;  // of output_: what read() has given, and what there is
  size_t total_ = 0;             // bytes made since the start
  size_t literal_ = 0, copy_ = 0, offset_ = 0;
};

class SnappyBytes : public BlockBytes {
 public:
  SnappyBytes(ByteSource source, std::string name) : BlockBytes(std::move(source), std::move(name), "Snappy") {
    for (int i = 0;; ++i) {  // the length, which the page's header has, too
      if (i == 5) fail("a length of more than 32 bits");
      if (take() < 0x80) break;
    }
  }

 protected:
  bool next() override {
    if (at_end()) return false;
    const size_t tag = take();
    const size_t high = tag >> 2;
    switch (tag & 3) {
      case 0:
        literal((high < 60 ? high : take(static_cast<int>(high) - 59)) + 1);
        break;
      case 1: {
        const size_t offset = (tag >> 5) << 8 | take();
        copy(offset, 4 + (high & 7));
        break;
      }
      default: {
        const size_t offset = take((tag & 3) == 2 ? 2 : 4);
        copy(offset, high + 1);
      }
    }
    return true;
  }
};

class Lz4Bytes : public BlockBytes {
 public:
  Lz4Bytes(ByteSource source, std::string name) : BlockBytes(std::move(source), std::move(name), "LZ4") {}

 protected:
  bool next() override {
    if (at_end()) {
      if (!is_last_) fail("a block that is cut short");
      return false;
    }
    if (!has_literals_) {
      token_ = take();
      literal(length(token_ >> 4));
      has_literals_ = is_last_ = true;  // a block ends with literals
      return true;
    }
    has_literals_ = is_last_ = false;
    const size_t offset = take(2);
    copy(offset, length(token_ & 15) + 4);
    return true;
  }

 private:
  size_t length(size_t nibble) {
    if (nibble < 15) return nibble;
    size_t length = nibble;
    for (;;) {
      const size_t more = take();
      length += more;
      if (more < 255) return length;
    }
  }

  size_t token_ = 0;
  bool has_literals_ = false, is_last_ = false;
};

template <typename Bytes>
ByteSource source_of(std::shared_ptr<Bytes> bytes) {
  return [bytes = std::move(bytes)](char* into, size_t size) { return bytes->read(into, size); };
}

}  // namespace

ByteSource unpack_snappy(ByteSource source, std::string name) {
  return source_of(std::make_shared<SnappyBytes>(std::move(source), std::move(name)));
}

ByteSource unpack_lz4(ByteSource source, std::string name) {
  return source_of(std::make_shared<Lz4Bytes>(std::move(source), std::move(name)));
}

}  // namespace spillway::data
