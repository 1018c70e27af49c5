// Formats and parses the lines exchanged with programs that score completions: docs/rewards.md. Pure; safe from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rewards/rewards.h"

namespace spillway::rewards {

// The longest answer that is read.
constexpr size_t kMostAnswerBytes = size_t{256} << 20;

// A function to call in Python: a dotted path, or one of TRL's, with its arguments.
struct PythonFunction {
  std::string key;  // its name in requests
  RewardEntry entry;
};

// Returns the first line to Python, with its line break.
[[nodiscard]] std::string hello_line(const std::vector<PythonFunction>& functions);

// An error in Python's answer to it.
struct HelloError {
  std::string function;  // the key of the one that is missing; may be empty
  std::string error, traceback;
};
// Returns nullopt if all is well. Throws InputError at `where` if the line is no such answer.
[[nodiscard]] std::optional<HelloError> parse_hello(std::string_view line, std::string_view where);

// Returns the part that all requests of a round have in common: everything but their beginning.
[[nodiscard]] std::string request_body(const RewardInput& input);
// Returns one request, with its line break. `function` is empty for a program; `more`: the next request belongs
// together with this one, and answers may wait for it.
[[nodiscard]] std::string request_line(int64_t id, std::string_view function, bool more, std::string_view body);

// An answer: the function's output for the completions, or its error.
struct Answer {
  RewardOutput output;
  std::string error, traceback, place;  // `error` is empty where all is well
};

// Parses a line as JSON. Throws InputError `[where] ...` that names `function` if it is none.
[[nodiscard]] Json parse_line(std::string_view line, std::string_view function, std::string_view where);

// Returns the answer to request `id`; a bare list is the rewards. Throws InputError `[where] ...` that names `function`
// for an answer to another request, an object without rewards, another number of them than `completions`, a reward that
// is neither a finite number nor null, extra columns of another length, and metrics that are no numbers.
[[nodiscard]] Answer read_answer(const Json& json, int64_t id, int64_t completions, std::string_view function,
                                 std::string_view where);

}  // namespace spillway::rewards
