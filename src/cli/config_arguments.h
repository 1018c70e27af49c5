// The arguments of every command that takes a config: `CONFIG.yml [--KEY VALUE ...]`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace spillway {

// A flag of the command itself, in addition to the keys of the config.
struct CommandFlag {
  std::string_view name;   // "--out"
  std::string_view value;  // what follows it, "FOLDER"; empty: nothing
  std::string_view meaning;
};

// The flag --isa of commands that compute or measure.
constexpr std::string_view kIsaMeaning =
    "compute as if the CPU had no more than this instruction set: portable, avx2, avx512, avx512_bf16 or amx_bf16";
constexpr CommandFlag kIsaFlag = {"--isa", "NAME", kIsaMeaning};

// The help of a command that takes a config.
struct ConfigCommand {
  std::string_view name;  // "plan"
  std::string_view summary;
  std::span<const CommandFlag> flags;
  std::span<const std::string_view> examples;  // command lines
  std::string_view instead = {};               // a flag that may stand in place of the config
};

struct ConfigArguments {
  // "-": standard input; empty: ConfigCommand::instead was given, or the overrides are the whole config.
  std::string path;
  std::vector<config::ConfigOverride> overrides;
  std::map<std::string, std::string, std::less<>> flags;  // those given, with their values
  int64_t ranks = 0;                                      // that a launcher has started (config::ConfigSource)

  // The name of the config in messages.
  [[nodiscard]] std::string shown_path() const { return path.empty() ? "the command line" : path; }
  [[nodiscard]] bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
  // Returns the flag's value; empty if it was not given.
  [[nodiscard]] std::string value(std::string_view flag) const {
    const auto found = flags.find(flag);
    return found == flags.end() ? "" : found->second;
  }
};

// Reads the arguments after the command's name. On --help and --help-config [--markdown] it prints the help on standard
// output and returns nothing. Throws InputError.
[[nodiscard]] std::optional<ConfigArguments> parse_config_arguments(const ConfigCommand& command,
                                                                    std::span<const std::string> args);

// Applies --isa if it was given. Throws InputError. REQUIRES: no kernel has run.
void apply_isa_flag(const ConfigArguments& arguments);

// The resolution of hub names of models and data sets in a config.
enum class HubNames {
  kFetched,  // fetched where this machine does not have them
  kCached,   // on this machine, of models at least config.json; nobody is asked
};

// Loads the config of the arguments, and logs which of its keys are ignored.
[[nodiscard]] config::LoadedConfig load_config(const ConfigArguments& arguments, config::ConfigUse use,
                                               HubNames names = HubNames::kFetched);

// Logs the ignored keys in one line, and a line for each key that was interpreted as something else.
void log_notes(const config::LoadedConfig& loaded);

}  // namespace spillway
