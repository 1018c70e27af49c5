// Parquet's hybrid of run lengths and packed bits, which levels and indices into dictionaries are in:
// https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace spillway::data {

// `count` numbers of `width` bits. Throws InputError, naming `where`, where the bytes end before. REQUIRES: 0 <= width
// <= 32.
[[nodiscard]] std::vector<int32_t> unpack_run_lengths(std::span<const std::byte> bytes, int width, int64_t count,
                                                      std::string_view where);

}  // namespace spillway::data
