// The wire format of Protocol Buffers (https://protobuf.dev/programming-guides/encoding), for the few messages that
// trackers need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::protobuf {

// Appends the bytes of a number, lowest first.
template <typename T>
void append_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}
void append_varint(std::string& out, uint64_t value);

// Append a field with its number. A message is a field of bytes.
void append_number(std::string& out, int field, uint64_t value);
void append_bytes(std::string& out, int field, std::string_view content);
// In 32 and 64 bits.
void append_float(std::string& out, int field, float value);
void append_double(std::string& out, int field, double value);

struct Field {
  int number = 0;
  uint64_t value = 0;           // of a number; the bits of a fixed one
  std::string_view bytes = {};  // of bytes and messages
};

// Reads the fields of a message, which it borrows.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}
  // Returns nothing at the end, and where the message is damaged.
  [[nodiscard]] std::optional<Field> next();

 private:
  [[nodiscard]] std::optional<uint64_t> varint();
  [[nodiscard]] std::optional<std::string_view> take(uint64_t bytes);

  std::string_view rest_;
};

}  // namespace spillway::protobuf
