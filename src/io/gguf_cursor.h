// Reads the header of a GGUF file, front to back: its numbers, texts and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/gguf.h"

namespace spillway {

// Reads through a buffer; checks every length against the rest of the file before anything is allocated for it. Throws
// InputError naming the file if that is cut short or broken. Borrows the file. For use by one thread.
class GgufCursor {
 public:
  explicit GgufCursor(const ReadFile& file);

  [[nodiscard]] int64_t position() const { return position_; }
  [[nodiscard]] const std::string& where() const { return where_; }

  // Throws unless `count` items of `bytes` each can follow.
  void require(uint64_t count, int64_t bytes, std::string_view what) const;

  template <typename T>
  [[nodiscard]] T number() {
    require(1, sizeof(T), "numbers");
    T value;
    take(&value, sizeof value);
    return value;
  }
  // Reads an unsigned number that int64_t can hold; `key` names it in errors.
  [[nodiscard]] int64_t size(std::string_view key);
  [[nodiscard]] std::string text();

 private:
  void take(void* into, int64_t bytes);

  const ReadFile& file_;
  std::string where_;
  int64_t end_, position_ = 0;
  std::vector<std::byte> buffer_;
  int64_t begin_ = 0, filled_ = 0;  // the part of the file in buffer_
};

// Reads the value of a metadata key: its type, then the value itself.
[[nodiscard]] GgufValue read_value(GgufCursor& cursor, std::string_view key);

}  // namespace spillway
