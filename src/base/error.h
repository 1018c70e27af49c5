// The two kinds of errors, which a caller treats differently, and bugs, which stop the program.
//
// A message reads `[where] expected X, got Y; do Z` on one line: `where` is a config key, a file with its line, a
// tensor or an operation.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace spillway {

// Thrown if the user's input is wrong: config, data, model folder, a budget that cannot be met. Exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown if the machine failed: a full disk, an I/O error, a lost device. Exit status 3.
class MachineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Make an error: throw input_error("config.json", "expected hidden_size > 0, got {}; check the model folder", n);
template <typename... Args>
[[nodiscard]] InputError input_error(std::string_view where, fmt::format_string<Args...> text, Args&&... args) {
  return InputError(fmt::format("[{}] {}", where, fmt::format(text, std::forward<Args>(args)...)));
}
template <typename... Args>
[[nodiscard]] MachineError machine_error(std::string_view where, fmt::format_string<Args...> text, Args&&... args) {
  return MachineError(fmt::format("[{}] {}", where, fmt::format(text, std::forward<Args>(args)...)));
}

// Prints "bug: file:line: condition: text" and aborts. For broken invariants only, never for a user's input.
[[noreturn]] void report_bug(const char* file, int line, const char* condition, std::string_view text);

}  // namespace spillway

// Reports a bug unless the condition holds: SPILLWAY_CHECK(offset % 64 == 0, "offset {} of {}", offset, name);
#define SPILLWAY_CHECK(condition, ...)                                                                  \
  do {                                                                                                  \
    if (!(condition)) ::spillway::report_bug(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
