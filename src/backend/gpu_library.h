// A shared library of NVIDIA's that is opened when it is first needed, so that the program starts without it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::cuda {

// Returns "13.0.2" for 130002, the form in which cuBLASLt and cuDNN give their versions.
[[nodiscard]] std::string version_text(size_t number);

// Describes a library for `doctor`.
struct FoundLibrary {
  std::string version, path;
};

// Returns the folders in which a program's libraries are looked for, as patterns for glob(), in this order: those of
// LD_LIBRARY_PATH; NVIDIA's wheels where pip laid the program (PREFIX/bin, PREFIX/lib/python3*/site-packages); the
// loader's own (an empty text); the toolkit's; NVIDIA's wheels in the active environment, of the user, of the system.
[[nodiscard]] std::vector<std::string> library_places(const std::filesystem::path& program);

class Library {
 public:
  // Opens the first `file` in the places of `program` that can be opened. Throws MachineError
  // `[name] ...; do `install`` if none can. It is never closed, and the loader returns it to later requests for the
  // same name.
  Library(std::string_view name, std::string_view file, std::string_view install,
          const std::filesystem::path& program = "/proc/self/exe");

  // Returns the handle of dlopen.
  [[nodiscard]] void* handle() const { return handle_; }
  // Returns the file that was opened.
  [[nodiscard]] std::string path() const;

  // Throws MachineError if the library is too old to have the function.
  template <typename Function>
  void find(std::string_view function, Function*& pointer) const {
    pointer = reinterpret_cast<Function*>(find_symbol(function));
  }

 private:
  [[nodiscard]] void* find_symbol(std::string_view function) const;

  std::string name_, install_;
  void* handle_ = nullptr;
};

}  // namespace spillway::cuda
