// Reads characters and keeps track of their line.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/files/byte_source.h"

namespace spillway::data {

// A buffered view of a ByteSource. Skips a UTF-8 byte order mark at the start; throws InputError for one of UTF-16.
class ByteStream {
 public:
  ByteStream(ByteSource source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), buffer_(kBufferBytes) {
    fill();
    const std::string_view mark(buffer_.data(), std::min<size_t>(end_, 2));
    if (mark == "\xFF\xFE" || mark == "\xFE\xFF")
      throw input_error(name_, "expected UTF-8, got a byte order mark of UTF-16; save the file as UTF-8");
    if (end_ >= 3 && std::string_view(buffer_.data(), 3) == "\xEF\xBB\xBF") at_ = 3;
  }

  [[nodiscard]] bool at_end() {
    if (at_ == end_) fill();
    return at_ == end_;
  }
  // REQUIRES: at_end() was called last, and returned false.
  [[nodiscard]] char peek() const { return buffer_[at_]; }
  char take() {
    const char c = buffer_[at_++];
    ++column_;
    if (c == '\n') {
      ++line_;
      column_ = 1;
    }
    return c;
  }

  [[nodiscard]] int64_t line() const { return line_; }
  [[nodiscard]] int64_t column() const { return column_; }  // in bytes, from 1
  [[nodiscard]] std::string where(int64_t line) const { return fmt::format("{}:{}", name_, line); }
  [[nodiscard]] std::string where() const { return where(line_); }
  // Returns the position "FILE:LINE:COLUMN" of byte `at` of a text that began at this line and column.
  [[nodiscard]] std::string where(std::string_view text, size_t at, int64_t line, int64_t column) const {
    const std::string_view before = text.substr(0, at);
    const size_t newline = before.rfind('\n');
    column = newline == std::string_view::npos ? column + std::ssize(before)
                                               : std::ssize(before) - std::ssize(before.substr(0, newline));
    line += std::count(before.begin(), before.end(), '\n');
    return fmt::format("{}:{}:{}", name_, line, column);
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 18;

  void fill() {
    at_ = 0;
    end_ = source_(buffer_.data(), buffer_.size());
  }

  ByteSource source_;
  std::string name_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  int64_t line_ = 1, column_ = 1;
};

}  // namespace spillway::data
