#include "data/files/page_header.h"

#include "base/error.h"

namespace spillway::data {
namespace {

struct Ended {};  // the bytes do, before the header does

// Thrift's compact protocol, as far as a header needs it:
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  enum Type : uint8_t { kStop, kTrue, kFalse, kByte, kI16, kI32, kI64, kDouble, kBinary, kList, kSet, kMap, kStruct };

  // Calls field(id, type) for each field; what that does not read it must skip.
  template <typename Field>
  void read_struct(const Field& field) {
    if (++depth_ > kMaxDepth) fail("structs nested too deep");
    int64_t id = 0;
    for (;;) {
      const uint8_t head = take();
      if (head == kStop) break;
      id = (head >> 4) != 0 ? id + (head >> 4) : zigzag();
      field(id, static_cast<Type>(head & 15));
    }
    --depth_;
  }

  int64_t integer(Type type) {
    if (type != kI16 && type != kI32 && type != kI64) fail("a field that is no integer");
    return zigzag();
  }

  void skip(Type type) {
    switch (type) {
      case kTrue:
      case kFalse:
        break;  // in the field's head
      case kByte:
        (void)take();
        break;
      case kI16:
      case kI32:
      case kI64:
        (void)varint();
        break;
      case kDouble:
        skip_bytes(sizeof(double));
        break;
      case kBinary:
        skip_bytes(varint());
        break;
      case kStruct:
        read_struct([this](int64_t, Type inner) { skip(inner); });
        break;
      default:
        fail("a field of an unknown type");
    }
  }

  [[nodiscard]] int64_t at() const { return static_cast<int64_t>(at_); }
  [[noreturn]] void fail(std::string_view what) const {
    throw input_error(where_, "expected the header of a page, got {}; make or download the file again", what);
  }

 private:
  static constexpr int kMaxDepth = 16;

  uint8_t take() {
    if (at_ == bytes_.size()) throw Ended();
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  void skip_bytes(uint64_t count) {
    if (count > bytes_.size() - at_) throw Ended();
    at_ += count;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = take();
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
  }
  int64_t zigzag() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t at_ = 0;
  int depth_ = 0;
};

PageHeader read_header(Cursor& cursor) {
  PageHeader header;
  const auto read_details = [&](PageType type) {
    cursor.read_struct([&](int64_t id, Cursor::Type field) {
      const bool is_v2 = type == PageType::kDataV2;
      if (id == 1) {
        header.values = cursor.integer(field);
      } else if (id == (is_v2 ? 4 : 2)) {
        header.encoding = cursor.integer(field);
      } else if (id == 3 && type == PageType::kData) {
        header.definition_encoding = cursor.integer(field);
      } else if (id == 5 && is_v2) {
        header.definition_bytes = cursor.integer(field);
      } else if (id == 6 && is_v2) {
        header.repetition_bytes = cursor.integer(field);
      } else if (id == 7 && is_v2) {
        header.is_packed = field != Cursor::kFalse;
      } else {
        cursor.skip(field);
      }
    });
  };
  cursor.read_struct([&](int64_t id, Cursor::Type field) {
    switch (id) {
      case 1:
        header.type = cursor.integer(field);
        break;
      case 2:
        header.unpacked_bytes = cursor.integer(field);
        break;
      case 3:
        header.bytes = cursor.integer(field);
        break;
      case 5:
      case 7:
      case 8:
        if (field != Cursor::kStruct) cursor.fail("a field that is no struct");
        read_details(id == 5 ? PageType::kData : id == 7 ? PageType::kDictionary : PageType::kDataV2);
        break;
      default:
        cursor.skip(field);
    }
  });
  header.header_bytes = cursor.at();
  return header;
}

}  // namespace

std::optional<PageHeader> parse_page_header(std::span<const std::byte> bytes, std::string_view where) {
  Cursor cursor(bytes, where);
  try {
    PageHeader header = read_header(cursor);
    for (const int64_t size :
         {header.bytes, header.unpacked_bytes, header.values, header.definition_bytes, header.repetition_bytes}) {
      if (size < 0 || size > INT32_MAX) cursor.fail("a size that is no 31 bits");
    }
    if (header.definition_bytes + header.repetition_bytes > header.bytes) cursor.fail("levels larger than the page");
    return header;
  } catch (const Ended&) {
    return {};
  }
}

}  // namespace spillway::data
