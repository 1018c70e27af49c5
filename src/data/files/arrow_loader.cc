// Loads the library that reads Parquet and Arrow (src/arrow/), which a build may or may not have.
#include "data/files/arrow_loader.h"

#include "base/error.h"
#include "data/files/record_parsers.h"
#include "io/file.h"
#include "io/program_module.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBuildAgain =
    "run tools/install_dependencies arrow and build again, or convert the file to .jsonl";

}  // namespace

std::optional<ArrowLibrary> load_arrow(const fs::path& library) {
  const std::optional<ProgramModule> module = ProgramModule::open(library, kBuildAgain);
  if (!module) return {};
  ArrowLibrary loaded;
  module->find(loaded.open_arrow, "spillway_open_arrow");
  module->find(loaded.parquet_layout, "spillway_parquet_layout");
  module->find(loaded.unpack_brotli, "spillway_unpack_brotli");
  return loaded;
}

const ArrowLibrary& arrow_library(const fs::path& path) {
  static const std::optional<ArrowLibrary> kLibrary = load_arrow(module_path("arrow"));
  if (!kLibrary)
    throw input_error(path.string(), "expected a build with Arrow to read this format, got one without; {}",
                      kBuildAgain);
  return *kLibrary;
}

std::unique_ptr<RecordParser> make_arrow_records(const fs::path& path, RecordFormat format,
                                                 const std::vector<std::string>* columns) {
  (void)ReadFile(path);  // a regular file that can be read, or the error that says why not
  return std::unique_ptr<RecordParser>(arrow_library(path).open_arrow(path.c_str(), format, columns));
}

}  // namespace spillway::data
