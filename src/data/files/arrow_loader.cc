// Loads the library that reads Parquet and Arrow (src/arrow/), which a build may or may not have.
#include <dlfcn.h>

#include "base/error.h"
#include "data/files/record_parsers.h"
#include "io/file.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

using OpenArrow = RecordParser* (*)(const char* path, RecordFormat format);

// It lies beside the program. Null where there is none; stays loaded.
OpenArrow load_arrow() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  void* library = dlopen((program.parent_path() / "libspillway_arrow.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<OpenArrow>(dlsym(library, "spillway_open_arrow"));
}

}  // namespace

std::unique_ptr<RecordParser> make_arrow_records(const fs::path& path, RecordFormat format) {
  (void)ReadFile(path);  // a regular file that can be read, or the error that says why not
  static const OpenArrow kOpen = load_arrow();
  if (kOpen == nullptr) {
    throw input_error(
        path.string(),
        "expected a build with Arrow to read this format, got one without; run tools/install_dependencies "
        "arrow and build again, or convert the file to .jsonl");
  }
  return std::unique_ptr<RecordParser>(kOpen(path.c_str(), format));
}

}  // namespace spillway::data
