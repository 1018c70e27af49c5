// A shared library that is opened when it is first needed, so that the program starts without it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway::cuda {

// Returns "13.0.2" for 130002, the form in which cuBLASLt and cuDNN give their versions.
[[nodiscard]] std::string version_text(size_t number);

class Library {
 public:
  // Looks in the loader's folders (LD_LIBRARY_PATH, ldconfig), then in those in which the CUDA toolkit and, in a
  // virtual environment, NVIDIA's PyPI wheels put `file`. Throws MachineError `[name] ...; do `install`` if it is in
  // none of them. It is never closed, and the loader returns it to later requests for the same name.
  Library(std::string_view name, std::string_view file, std::string_view install);

  // Returns the handle of dlopen.
  [[nodiscard]] void* handle() const { return handle_; }

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
