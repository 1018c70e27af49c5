// Decompresses Snappy and LZ4 blocks one buffer at a time. Their libraries decompress a block at once, into memory for
// all of it, and blocks of Parquet may have gigabytes.
//
// Formats: https://github.com/google/snappy/blob/main/format_description.txt,
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
#pragma once

#include <string>

#include "data/files/byte_source.h"

namespace spillway::data {

// Return the decompressed bytes of a block. `source` ends with the block; `name` stands for the file in messages. They
// hold 64 KiB of previous output and 256 KiB of input. They throw InputError, also while reading, for a block that is
// corrupt or truncated, and for Snappy references further back than 64 KiB, which the format allows and no writer
// makes.
[[nodiscard]] ByteSource unpack_snappy(ByteSource source, std::string name);
[[nodiscard]] ByteSource unpack_lz4(ByteSource source, std::string name);

}  // namespace spillway::data
