// The settings of reward functions in a config, in the form that the code which calls them gets.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace spillway::rewards {

// An argument of one of TRL's functions, by TRL's name: a number, or a list of texts.
struct RewardArgument {
  std::string name;
  std::variant<double, std::vector<std::string>> value;
  bool operator==(const RewardArgument&) const = default;
};

// An entry of `trl.reward_funcs`.
struct RewardEntry {
  enum class Kind {
    kBuiltin,  // one of TRL's: `name`, with `arguments`
    kPython,   // the user's own: `name` is module.function
    kProgram,  // any program: `command`
    kModel,    // a sequence classifier of one label: `name` is its folder as in the config, or its name on the hub
  };
  Kind kind = Kind::kBuiltin;
  std::string name;
  std::string folder;      // of a model: its folder on this machine, whatever its name
  bool reads_ids = false;  // of a model: the ids of prompt and completion as they are, not their text
  std::vector<std::string> command;
  std::vector<RewardArgument> arguments;
  std::string where;  // for messages: "c.yml:3: trl.reward_funcs.0"
};

// The part of `trl:` that is about rewards.
struct RewardSettings {
  std::vector<RewardEntry> functions;  // at least one
  std::vector<double> weights;         // one a function
  double timeout_seconds = 120;        // the limit of one call of a function
  std::string python = "python3";      // the interpreter: a name on PATH, or a path
  std::string chat_template_kwargs;    // seen by templates of models, too: a JSON object as text, or empty
};

}  // namespace spillway::rewards
