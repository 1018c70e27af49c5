#include "backend/cuda/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

namespace spillway::cuda {
namespace {

// Returns the folders, as patterns for glob().
std::vector<std::string> places() {
  std::vector<std::string> result;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(variable)) result.push_back(std::string(folder) + "/lib64");
  }
  result.emplace_back(SPILLWAY_CUDA_LIBRARY_DIR);
  result.emplace_back("/usr/local/cuda/lib64");
  if (const char* environment = std::getenv("VIRTUAL_ENV"))
    result.push_back(std::string(environment) + "/lib/python3*/site-packages/nvidia/*/lib");
  return result;
}

void* open_below(const std::string& pattern, std::string_view file) {
  glob_t found{};
  void* handle = nullptr;
  if (glob((pattern + "/" + std::string(file)).c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && !handle; ++i) handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
  }
  globfree(&found);
  return handle;
}

}  // namespace

std::string version_text(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Library::Library(std::string_view name, std::string_view file, std::string_view install)
    : name_(name), install_(install), handle_(dlopen(std::string(file).c_str(), RTLD_NOW | RTLD_LOCAL)) {
  const std::string error = handle_ ? "" : dlerror();
  for (const std::string& place : places()) {
    if (!handle_) handle_ = open_below(place, file);
  }
  if (!handle_) throw machine_error(name_, "expected {}, got '{}'; {}", file, error, install_);
}

void* Library::find_symbol(std::string_view function) const {
  void* const symbol = dlsym(handle_, std::string(function).c_str());
  if (!symbol) throw machine_error(name_, "expected a version with {}, got an older one; {}", function, install_);
  return symbol;
}

}  // namespace spillway::cuda
