// The header of a page of a Parquet file: the struct PageHeader of parquet.thrift, in Thrift's compact protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace spillway::data {

enum class PageType { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

// Parquet's codes for the encodings of values.
constexpr int64_t kPlain = 0, kPlainDictionary = 2, kRle = 3, kRleDictionary = 8;

struct PageHeader {
  int64_t header_bytes = 0;  // of the header itself
  int64_t type = -1;         // a PageType, or what came later
  int64_t bytes = 0, unpacked_bytes = 0;
  int64_t values = 0;
  int64_t encoding = -1, definition_encoding = kRle;
  int64_t definition_bytes = 0, repetition_bytes = 0;  // of kDataV2, in front of what is compressed
  bool is_packed = true;                               // of kDataV2: compressed as the column is
};

// Parses a header. Returns nothing if `bytes` end before the header does. Throws InputError, naming `where`, for an
// invalid header: of another protocol, nested without end, with sizes below zero.
[[nodiscard]] std::optional<PageHeader> parse_page_header(std::span<const std::byte> bytes, std::string_view where);

}  // namespace spillway::data
