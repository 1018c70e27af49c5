// Libraries of the program's own that are opened when they are first needed, as what they need may be large, or absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace spillway {

// Returns the path of the module libspillway_NAME.so: beside the program in a build, in lib/spillway/ beside bin/ in an
// installation. It may not be there.
[[nodiscard]] std::filesystem::path module_path(std::string_view name);

// An open module. It stays open until the process ends, as what it makes may.
class ProgramModule {
 public:
  // Returns nothing if there is no such file. Throws MachineError if it cannot be opened; `advice` ends the message.
  [[nodiscard]] static std::optional<ProgramModule> open(const std::filesystem::path& path, std::string_view advice);

  // Sets `function` to the module's of that name. Throws MachineError if it has none.
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(find(name));
  }

 private:
  ProgramModule(std::filesystem::path path, std::string_view advice) : path_(std::move(path)), advice_(advice) {}
  [[nodiscard]] void* find(const char* name) const;
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::string advice_;
  void* handle_ = nullptr;
};

}  // namespace spillway
