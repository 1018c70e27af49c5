// The lines that go between Spillway and what scores completions outside of it: docs/rewards.md. Pure; any thread.
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

// A function that Python is asked for: a dotted path, or one that TRL brings, with its arguments.
struct PythonFunction {
  std::string key;  // what requests call it
  RewardEntry entry;
};

// The first line to Python, with its line break.
[[nodiscard]] std::string hello_line(const std::vector<PythonFunction>& functions);

// What Python says to it: nothing where all is well.
struct HelloError {
  std::string function;  // the key of the one that it does not have; may be empty
  std::string error, traceback;
};
// Throws InputError at `where` for what is no such answer.
[[nodiscard]] std::optional<HelloError> parse_hello(std::string_view line, std::string_view where);

// What the requests of a round have in common: everything but their beginning.
[[nodiscard]] std::string request_body(const RewardInput& input);
// One of them, with its line break. `function` is empty for a program; `more`: the next request belongs together with
// this one, and answers may wait for it.
[[nodiscard]] std::string request_line(int64_t id, std::string_view function, bool more, std::string_view body);

// An answer: what the function says of the completions, or how it failed.
struct Answer {
  RewardOutput output;
  std::string error, traceback, place;  // `error` is empty where all is well
};

// A line that answers, as JSON. Throws InputError `[where] ...` that names `function` for what is none.
[[nodiscard]] Json parse_line(std::string_view line, std::string_view function, std::string_view where);

// The answer to request `id`; a bare list is the rewards. Throws InputError `[where] ...` that names `function` for an
// answer to another request, an object without rewards, another number of them than `completions`, what is no finite
// number and no null, extra columns of another length, and metrics that are no numbers.
[[nodiscard]] Answer read_answer(const Json& json, int64_t id, int64_t completions, std::string_view function,
                                 std::string_view where);

}  // namespace spillway::rewards
