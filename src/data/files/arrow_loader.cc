// Loads the library that reads Parquet and Arrow (src/arrow/), which a build may or may not have.
#include "data/files/arrow_loader.h"

#include <dlfcn.h>

#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "data/files/record_parsers.h"
#include "io/file.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBuildAgain =
    "run tools/install_dependencies arrow and build again, or convert the file to .jsonl";

// Returns why dlopen or dlsym failed, without the library's path at its start.
std::string loader_error(const fs::path& library) {
  const char* const said = dlerror();
  std::string_view text = said == nullptr ? "no reason" : said;
  const std::string prefix = library.string() + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return quote(text);
}

// Returns the library's path: beside the program in a build, in lib/spillway/ beside bin/ in an installation.
fs::path library_path() {
  constexpr const char* kName = "libspillway_arrow.so";
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = folder.parent_path() / "lib" / "spillway" / kName;
  return fs::exists(installed, error) ? installed : folder / kName;
}

}  // namespace

std::optional<ArrowLibrary> load_arrow(const fs::path& library) {
  std::error_code error;
  if (!fs::exists(library, error)) return {};
  ArrowLibrary loaded;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](auto& function, const char* name) {
    void* const found = handle == nullptr ? nullptr : dlsym(handle, name);
    if (found == nullptr)
      throw machine_error(library.string(), "expected a library that can be loaded, got {}; {}", loader_error(library),
                          kBuildAgain);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(loaded.open_arrow, "spillway_open_arrow");
  find(loaded.parquet_layout, "spillway_parquet_layout");
  find(loaded.unpack_brotli, "spillway_unpack_brotli");
  return loaded;
}

const ArrowLibrary& arrow_library(const fs::path& path) {
  static const std::optional<ArrowLibrary> kLibrary = load_arrow(library_path());
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
