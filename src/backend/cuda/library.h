// A shared library that is opened when it is first needed, so that the program starts without it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway::cuda {

// "13.0.2" of 130002, as cuBLASLt and cuDNN give their versions.
[[nodiscard]] std::string version_text(size_t number);

class Library {
 public:
  // Looks where the loader does (LD_LIBRARY_PATH, ldconfig), then where the CUDA toolkit and, in a virtual environment,
  // NVIDIA's PyPI wheels put `file`. Throws MachineError `[name] ...; do `install`` where it is nowhere. It is never
  // closed, and the loader has it for those who ask by the same name later.
  Library(std::string_view name, std::string_view file, std::string_view install);

  // dlopen's.
  [[nodiscard]] void* handle() const { return handle_; }

  // Throws MachineError where the library is too old to have it.
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
