// Decodes Parquet's hybrid of run lengths and packed bits, the format of levels and dictionary indices:
// https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace spillway::data {

// Returns `count` numbers of `width` bits. Throws InputError, naming `where`, if the bytes end early. REQUIRES: 0 <=
// width <= 32.
[[nodiscard]] std::vector<int32_t> unpack_run_lengths(std::span<const std::byte> bytes, int width, int64_t count,
                                                      std::string_view where);

}  // namespace spillway::data
