// Snappy and LZ4 blocks, unpacked a buffer at a time. Their libraries unpack a block at once, into memory for all of
// it, and blocks of Parquet may have gigabytes.
//
// Formats: https://github.com/google/snappy/blob/main/format_description.txt,
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
#pragma once

#include <string>

#include "data/files/byte_source.h"

namespace spillway::data {

// `source` ends with the block; `name` stands for the file in messages. Holds 64 KiB of what came before and 256 KiB of
// what comes. Throws InputError, also later: for a block that is broken or cut short, and for Snappy with references
// further back than 64 KiB, which the format allows and no writer makes.
[[nodiscard]] ByteSource unpack_snappy(ByteSource source, std::string name);
[[nodiscard]] ByteSource unpack_lz4(ByteSource source, std::string name);

}  // namespace spillway::data
