#include "backend/gpu_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <cstdlib>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/home.h"

namespace spillway::cuda {
namespace {

// Returns the folders that a variable names, with colons between them.
std::vector<std::string> folders_in(const char* variable) {
  std::vector<std::string> folders;
  const char* const value = std::getenv(variable);
  std::istringstream text(value ? value : "");
  for (std::string folder; std::getline(text, folder, ':');) {
    if (!folder.empty()) folders.push_back(std::move(folder));
  }
  return folders;
}

// Returns a pattern of glob() that the path alone matches.
std::string literal(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Returns where pip puts NVIDIA's wheels below Python's prefix: in site-packages, Debian's Python in dist-packages.
std::string wheels_below(const std::string& prefix) {
  return literal(prefix) + "/lib*/python3*/*-packages/nvidia/*/lib";
}

// Opens the first file below the pattern that can be. `problem` becomes what is wrong with one that cannot.
void* open_below(const std::string& pattern, std::string_view file, std::string& problem) {
  glob_t found{};
  void* handle = nullptr;
  if (glob((pattern + "/" + std::string(file)).c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && !handle; ++i) {
      handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
      if (!handle && problem.empty()) problem = dlerror();
    }
  }
  globfree(&found);
  return handle;
}

}  // namespace

std::string version_text(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::vector<std::string> library_places(const std::filesystem::path& program) {
  std::vector<std::string> places;
  for (const std::string& folder : folders_in("LD_LIBRARY_PATH")) places.push_back(literal(folder));
  const std::string prefix = program.parent_path().parent_path().string();
  places.push_back(wheels_below(prefix));
  places.push_back(literal(prefix) + "/nvidia/*/lib");  // pip install --target
  places.emplace_back();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    for (const std::string& folder : folders_in(variable)) places.push_back(literal(folder) + "/lib64");
  }
#ifdef SPILLWAY_CUDA_LIBRARY_DIR
  places.push_back(literal(SPILLWAY_CUDA_LIBRARY_DIR));
#endif
  places.emplace_back("/usr/local/cuda/lib64");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    for (const std::string& folder : folders_in(variable)) places.push_back(wheels_below(folder));
  }
  for (const char* system : {"~/.local", "/usr/local", "/usr"}) places.push_back(wheels_below(expand_home(system)));
  return places;
}

Library::Library(std::string_view name, std::string_view file, std::string_view install,
                 const std::filesystem::path& program)
    : name_(name), install_(install) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(program, error);
  std::string problem, absent;
  for (const std::string& place : library_places(error ? program : real)) {
    if (handle_) return;
    if (!place.empty()) {
      handle_ = open_below(place, file, problem);
    } else {
      handle_ = dlopen(std::string(file).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!handle_) absent = dlerror();
    }
  }
  if (!handle_)
    throw machine_error(name_, "expected {}, got '{}'; {}", file, problem.empty() ? absent : problem, install_);
}

std::string Library::path() const {
  const link_map* map = nullptr;
  return dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

void* Library::find_symbol(std::string_view function) const {
  void* const symbol = dlsym(handle_, std::string(function).c_str());
  if (!symbol) throw machine_error(name_, "expected a version with {}, got an older one; {}", function, install_);
  return symbol;
}

}  // namespace spillway::cuda
