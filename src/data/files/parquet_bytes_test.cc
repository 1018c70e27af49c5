// Tests the parts of the reader of columns of bytes; clips/clip_rows_test.cc reads whole files that pyarrow wrote.
#include "data/files/parquet_bytes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "data/files/block_codecs.h"
#include "data/files/run_lengths.h"

namespace spillway::data {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Three bytes at a time.
ByteSource drip(std::string text) {
  return [text = std::move(text), at = size_t{0}](char* into, size_t size) mutable {
    const size_t count = std::min({size, text.size() - at, size_t{3}});
    std::memcpy(into, text.data() + at, count);
    at += count;
    return count;
  };
}

std::string all_of(const ByteSource& source) {
  std::string all;
  char some[5];
  while (const size_t count = source(some, sizeof some)) all.append(some, count);
  return all;
}

std::string snappy(const std::string& block) { return all_of(unpack_snappy(drip(block), "a.parquet")); }
std::string lz4(const std::string& block) { return all_of(unpack_lz4(drip(block), "a.parquet")); }

}  // namespace

TEST_CASE("Snappy blocks are literals and copies, as its format description has them") {
  CHECK(snappy(std::string("\x05\x10hello", 7)) == "hello");
  // Literal `ab`, a copy of 4 at offset 2 (one byte), a copy of 3 at offset 6 (two bytes), of 2 at offset 9 (four).
  CHECK(snappy(std::string("\x0b\x04"
                           "ab\x01\x02\x0a\x06\x00\x07\x09\x00\x00\x00",
                           14)) == "ababababaab");
  const std::string long_text(300, 'x');
  CHECK(snappy("\xac\x02\xf4\x2b\x01" + long_text) == long_text);
  CHECK(snappy(std::string("\x00", 1)).empty());
}

TEST_CASE("broken Snappy blocks are InputErrors") {
  CHECK_THROWS_AS((void)snappy(""), InputError);
  CHECK_THROWS_AS((void)snappy("\x05\x10hel"), InputError);
  CHECK_THROWS_AS((void)snappy(std::string("\x05\x01\x01", 3)), InputError);  // nothing to copy
  CHECK_THROWS_AS((void)snappy(std::string("\x05\x04"
                                           "ab\x01\x03",
                                           6)),
                  InputError);  // nor so far back
  CHECK_THROWS_AS((void)snappy(std::string("\x05\x04"
                                           "ab\x01\x00",
                                           6)),
                  InputError);
  CHECK_THROWS_AS((void)snappy("\xff\xff\xff\xff\xff\xff"), InputError);
}

TEST_CASE("LZ4 blocks are literals and copies, as its format description has them") {
  CHECK(lz4("\x50hello") == "hello");
  CHECK(lz4(std::string("\x22"
                        "ab\x02\x00\x10z",
                        7)) == "ababababz");
  const std::string long_text(15 + 255 + 3, 'y');
  CHECK(lz4("\xf0\xff\x03" + long_text) == long_text);
}

TEST_CASE("broken LZ4 blocks are InputErrors") {
  CHECK_THROWS_AS((void)lz4(""), InputError);
  CHECK_THROWS_AS((void)lz4("\x50hel"), InputError);
  CHECK_THROWS_AS((void)lz4(std::string("\x22"
                                        "ab\x03\x00\x10z",
                                        7)),
                  InputError);
  CHECK_THROWS_AS((void)lz4(std::string("\x22"
                                        "ab\x02\x00",
                                        5)),
                  InputError);  // ends with a copy
}

TEST_CASE("a copy that reaches over a buffer's end repeats what it made") {
  // One literal, then LZ4's copy of 1,000,000 bytes at offset 1.
  std::string block = "\x1f";
  block += "q";
  block += std::string("\x01\x00", 2);
  const size_t length = 1000000, rest = length - 4 - 15;
  block += std::string(rest / 255, '\xff') + static_cast<char>(rest % 255);
  block += std::string("\x10", 1) + "z";
  CHECK(lz4(block) == std::string(length + 1, 'q') + "z");
}

TEST_CASE("run lengths and packed bits are Parquet's") {
  // The specification's example: 0 to 7 in three bits, then a run of five twos.
  const std::string bytes("\x03\x88\xc6\xfa\x0a\x02", 6);
  CHECK(unpack_run_lengths(bytes_of(bytes), 3, 13, "a") == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 2, 2, 2, 2, 2});
  CHECK(unpack_run_lengths(bytes_of(bytes), 3, 3, "a") == std::vector<int32_t>{0, 1, 2});
  CHECK_THROWS_AS((void)unpack_run_lengths(bytes_of(bytes), 3, 14, "a"), InputError);
  const std::string wide("\x04\x01\x02\x03\x04", 5);
  CHECK(unpack_run_lengths(bytes_of(wide), 32, 2, "a") == std::vector<int32_t>{0x04030201, 0x04030201});
  CHECK(unpack_run_lengths(bytes_of(std::string("\x06", 1)), 0, 3, "a") == std::vector<int32_t>{0, 0, 0});
}

TEST_CASE("the header of a page is read of Thrift's compact protocol") {
  // A dictionary page: type 2, 100 bytes, 70 compressed, {values 7, encoding 0}.
  const std::string bytes("\x15\x04\x15\xc8\x01\x15\x8c\x01\x4c\x15\x0e\x15\x00\x00\x00", 15);
  const auto header = parse_page_header(bytes_of(bytes), "a");
  REQUIRE(header);
  CHECK(header->type == static_cast<int64_t>(PageType::kDictionary));
  CHECK((header->unpacked_bytes == 100 && header->bytes == 70 && header->values == 7 && header->encoding == kPlain));
  CHECK(header->header_bytes == 15);
  for (size_t size = 0; size < bytes.size(); ++size) CHECK(!parse_page_header(bytes_of(bytes.substr(0, size)), "a"));
  CHECK_THROWS_AS((void)parse_page_header(bytes_of(std::string("\x15\x04\x15\x01\x15\x02\x00", 7)), "a"), InputError);
}

}  // namespace spillway::data
