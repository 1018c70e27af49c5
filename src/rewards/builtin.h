// The reward functions of TRL 1.16 (trl/rewards): their names and arguments, and those that are computed here. The
// others need the Python package math_verify, and are part of reward_child.py.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewards/rewards.h"

namespace spillway::rewards {

struct BuiltinArgument {
  enum class Kind { kInteger, kNumber, kTexts };
  std::string_view name;
  Kind kind = Kind::kNumber;
  double otherwise = 0;  // the default of a config
  bool is_required = false;
  double least = -1e9, most = 1e9;  // both included
};

struct Builtin {
  std::string_view name;          // in a config
  std::string_view metrics_name;  // TRL's name in metrics
  std::vector<BuiltinArgument> arguments;
  bool in_python = false;
};

// Returns all of them. Safe from any thread.
[[nodiscard]] std::span<const Builtin> builtins();
// Returns null if there is none of that name.
[[nodiscard]] const Builtin* find_builtin(std::string_view name);

// Throws InputError for an argument that the function of a kBuiltin entry does not have, for a value that it cannot
// take, and for a missing one that it needs.
void check_arguments(const RewardEntry& entry);

// Returns the argument's value in the entry, else its default. REQUIRES: check_arguments() did not throw, and the
// argument is a number.
[[nodiscard]] double number_argument(const RewardEntry& entry, std::string_view name);

// REQUIRES: a builtin that is not in_python, with arguments for which check_arguments() does not throw.
[[nodiscard]] std::unique_ptr<RewardFunction> make_builtin(const RewardEntry& entry);

// Returns the text of a completion: itself, or that of its first message. Throws InputError if it has none.
[[nodiscard]] const std::string& text_of(const Json& completion);

}  // namespace spillway::rewards
