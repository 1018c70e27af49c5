#include "io/program_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace spillway {

namespace fs = std::filesystem;

fs::path module_path(std::string_view name) {
  const std::string file = fmt::format("libspillway_{}.so", name);
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = folder.parent_path() / "lib" / "spillway" / file;
  return fs::exists(installed, error) ? installed : folder / file;
}

std::optional<ProgramModule> ProgramModule::open(const fs::path& path, std::string_view advice) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  ProgramModule module(path, advice);
  module.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module.handle_ == nullptr) module.fail();
  return module;
}

void* ProgramModule::find(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) fail();
  return found;
}

void ProgramModule::fail() const {
  const char* const said = dlerror();
  std::string_view text = said == nullptr ? "no reason" : said;
  const std::string prefix = path_.string() + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  throw machine_error(path_.string(), "expected a library that can be loaded, got {}; {}", quote(text), advice_);
}

}  // namespace spillway
