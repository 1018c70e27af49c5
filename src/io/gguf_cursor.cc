#include "io/gguf_cursor.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"

namespace spillway {
namespace {

// The limit of a header; the largest vocabularies in use need some 20 MB of metadata.
constexpr int64_t kMaxHeaderBytes = 64 * kMiB;

enum class ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// Reads a number of an integral type; nullopt for another type.
std::optional<int64_t> read_any_integer(GgufCursor& cursor, ValueType type, std::string_view key) {
  switch (type) {
    case ValueType::kU8:
      return cursor.number<uint8_t>();
    case ValueType::kI8:
      return cursor.number<int8_t>();
    case ValueType::kU16:
      return cursor.number<uint16_t>();
    case ValueType::kI16:
      return cursor.number<int16_t>();
    case ValueType::kU32:
      return cursor.number<uint32_t>();
    case ValueType::kI32:
      return cursor.number<int32_t>();
    case ValueType::kU64:
      return cursor.size(key);
    case ValueType::kI64:
      return cursor.number<int64_t>();
    case ValueType::kBool:
      return cursor.number<uint8_t>() != 0;
    default:
      return {};
  }
}
double read_any_float(GgufCursor& cursor, ValueType type) {
  return type == ValueType::kF32 ? cursor.number<float>() : cursor.number<double>();
}

int64_t min_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    default:
      return 8;
  }
}

ValueType read_type(GgufCursor& cursor, std::string_view key) {
  const auto type = cursor.number<uint32_t>();
  if (type > static_cast<uint32_t>(ValueType::kF64)) {
    throw input_error(cursor.where(),
                      "expected a type of 0 to 12 for {}, got {}; the file is broken, download it again", quote(key),
                      type);
  }
  return static_cast<ValueType>(type);
}

GgufValue read_list(GgufCursor& cursor, std::string_view key) {
  const ValueType type = read_type(cursor, key);
  const auto count = cursor.number<uint64_t>();
  cursor.require(count, min_bytes(type), "list items");
  const auto fill = [&](auto list, auto next) {
    list.reserve(count);
    for (uint64_t i = 0; i < count; ++i) list.push_back(next());
    return list;
  };
  switch (type) {
    case ValueType::kString:
      return fill(std::vector<std::string>(), [&] { return cursor.text(); });
    case ValueType::kF32:
    case ValueType::kF64:
      return fill(std::vector<double>(), [&] { return read_any_float(cursor, type); });
    case ValueType::kArray:
      throw input_error(cursor.where(), "expected a list of plain values for {}, got a list of lists; use another file",
                        quote(key));
    default:
      return fill(std::vector<int64_t>(), [&] { return *read_any_integer(cursor, type, key); });
  }
}

}  // namespace

GgufCursor::GgufCursor(const ReadFile& file)
    : file_(file), where_(file.path().string()), end_(std::min(file.size(), kMaxHeaderBytes)), buffer_(64 * kKiB) {}

void GgufCursor::require(uint64_t count, int64_t bytes, std::string_view what) const {
  const int64_t left = end_ - position_;
  if (count <= static_cast<uint64_t>(left / bytes)) return;
  throw input_error(where_, "expected room for {} {} at byte {} of the header, got {} bytes; {}", count, what,
                    position_, left, "the file is cut short or broken, download it again");
}

int64_t GgufCursor::size(std::string_view key) {
  const auto value = number<uint64_t>();
  if (value > static_cast<uint64_t>(INT64_MAX)) {
    throw input_error(where_, "expected {} below 2^63, got {}; the file is broken, download it again", quote(key),
                      value);
  }
  return static_cast<int64_t>(value);
}

std::string GgufCursor::text() {
  const auto length = number<uint64_t>();
  require(length, 1, "bytes of text");
  std::string value(length, '\0');
  take(value.data(), static_cast<int64_t>(length));
  return value;
}

void GgufCursor::take(void* into, int64_t bytes) {
  auto* target = static_cast<std::byte*>(into);
  while (bytes > 0) {
    if (position_ < begin_ || position_ >= begin_ + filled_) {
      begin_ = position_;
      filled_ = std::min(static_cast<int64_t>(buffer_.size()), end_ - begin_);
      file_.read(begin_, first_of(buffer_, filled_));
    }
    const int64_t count = std::min(bytes, begin_ + filled_ - position_);
    copy_memory(target, buffer_.data() + (position_ - begin_), count);
    target += count;
    position_ += count;
    bytes -= count;
  }
}

GgufValue read_value(GgufCursor& cursor, std::string_view key) {
  const ValueType type = read_type(cursor, key);
  switch (type) {
    case ValueType::kString:
      return cursor.text();
    case ValueType::kF32:
    case ValueType::kF64:
      return read_any_float(cursor, type);
    case ValueType::kArray:
      return read_list(cursor, key);
    case ValueType::kBool:
      return cursor.number<uint8_t>() != 0;
    default:
      return *read_any_integer(cursor, type, key);
  }
}

}  // namespace spillway
