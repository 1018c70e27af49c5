// Loads the library that reads Parquet and Arrow.
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

// The functions of the library. The caller owns the returned objects. Null columns: all.
struct ArrowLibrary {
  RecordParser* (*open_arrow)(const char* path, RecordFormat format, const std::vector<std::string>* columns) = nullptr;
  ParquetLayout* (*parquet_layout)(const char* path, const std::vector<std::string>& columns) = nullptr;
  ByteSource* (*unpack_brotli)(ByteSource source, const std::string& name) = nullptr;
};

// Loads the library; it stays loaded. Returns nothing if there is no such file, in a build without Arrow. Throws
// MachineError with the dynamic loader's message if it cannot be loaded.
[[nodiscard]] std::optional<ArrowLibrary> load_arrow(const std::filesystem::path& library);

// Returns the library beside the program. Throws InputError at `path`, the file that needs it, if this build has none.
[[nodiscard]] const ArrowLibrary& arrow_library(const std::filesystem::path& path);

}  // namespace spillway::data
