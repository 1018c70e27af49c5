#include "report/trackers/protobuf.h"

#include <bit>

namespace spillway::protobuf {
namespace {

// The encodings of a field's content.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint64_t kMore = 0x80;

void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

uint64_t number_of(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

void append_varint(std::string& out, uint64_t value) {
  for (; value >= kMore; value >>= 7) out += static_cast<char>((value & (kMore - 1)) | kMore);
  out += static_cast<char>(value);
}

void append_number(std::string& out, int field, uint64_t value) {
  append_key(out, field, kVarint);
  append_varint(out, value);
}

void append_bytes(std::string& out, int field, std::string_view content) {
  append_key(out, field, kBytes);
  append_varint(out, content.size());
  out += content;
}

void append_float(std::string& out, int field, float value) {
  append_key(out, field, kFixed32);
  append_fixed(out, std::bit_cast<uint32_t>(value));
}

void append_double(std::string& out, int field, double value) {
  append_key(out, field, kFixed64);
  append_fixed(out, std::bit_cast<uint64_t>(value));
}

std::optional<Field> Reader::next() {
  const std::optional<uint64_t> key = varint();
  if (!key) return std::nullopt;
  Field field{.number = static_cast<int>(*key >> 3)};
  std::optional<std::string_view> bytes;
  switch (*key & 7) {
    case kVarint: {
      const std::optional<uint64_t> value = varint();
      if (!value) return std::nullopt;
      field.value = *value;
      return field;
    }
    case kFixed64:
      bytes = take(sizeof(uint64_t));
      break;
    case kFixed32:
      bytes = take(sizeof(uint32_t));
      break;
    case kBytes: {
      const std::optional<uint64_t> size = varint();
      if (size) bytes = take(*size);
      if (!bytes) return std::nullopt;
      field.bytes = *bytes;
      return field;
    }
    default:
      break;
  }
  if (!bytes) return std::nullopt;
  field.value = number_of(*bytes);
  return field;
}

std::optional<uint64_t> Reader::varint() {
  constexpr int kMaxBits = 64;
  uint64_t value = 0;
  for (int shift = 0; shift < kMaxBits && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & (kMore - 1)} << shift;
    if (byte < kMore) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> Reader::take(uint64_t bytes) {
  if (bytes > rest_.size()) return std::nullopt;
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

}  // namespace spillway::protobuf
