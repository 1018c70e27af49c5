// The library that reads Parquet and Arrow, from where it is loaded.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/files/byte_source.h"
#include "data/files/parquet_layout.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// What the library exports. The caller owns what a pointer is returned to. Null columns: all.
struct ArrowLibrary {
  RecordParser* (*open_arrow)(const char* path, RecordFormat format, const std::vector<std::string>* columns) = nullptr;
  ParquetLayout* (*parquet_layout)(const char* path, const std::vector<std::string>& columns) = nullptr;
  ByteSource* (*unpack_brotli)(ByteSource source, const std::string& name) = nullptr;
};

// Nothing where there is no such file, in a build without Arrow. Throws MachineError with what the dynamic loader says
// where there is one that cannot be loaded. It stays loaded.
[[nodiscard]] std::optional<ArrowLibrary> load_arrow(const std::filesystem::path& library);

// That beside the program. Throws InputError at `path`, a file that needs it, where this build has none.
[[nodiscard]] const ArrowLibrary& arrow_library(const std::filesystem::path& path);

}  // namespace spillway::data
