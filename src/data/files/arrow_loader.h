// The library that reads Parquet and Arrow, from where it is loaded.
#pragma once

#include <filesystem>

#include "data/files/record_reader.h"

namespace spillway::data {

// What the library exports. The caller owns the result.
using OpenArrow = RecordParser* (*)(const char* path, RecordFormat format);

// Null where there is no such file, in a build without Arrow. Throws MachineError with what the dynamic loader says
// where there is one that cannot be loaded. It stays loaded.
[[nodiscard]] OpenArrow load_arrow(const std::filesystem::path& library);

}  // namespace spillway::data
