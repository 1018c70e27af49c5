// Environment variables of a test.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace spillway::testing {

using Variables = std::map<std::string, std::optional<std::string>>;

// Sets variables, or unsets them (nothing), for as long as it lives: while no other thread reads them.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      const char* const before = std::getenv(name.c_str());
      before_[name] = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
      set(name, value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value);
  }
  Environment(Environment&&) = delete;

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  Variables before_;
};

}  // namespace spillway::testing
