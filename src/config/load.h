// From YAML text and the command line to a Config.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/spelled.h"
#include "config/verdict.h"

namespace spillway::config {

// `--KEY VALUE` as written; in the key, `-` and `_` are the same, and dots lead into nested keys and lists.
struct ConfigOverride {
  std::string key, value;
};

// The use of a config, which decides what it must hold: rows need no learning rate.
enum class ConfigUse {
  kTrain,
  kPreprocess,
  kRewards,  // the tokenizer and the reward functions are all that is looked at
};

// The source of a config: enough to load it again with something changed.
struct ConfigSource {
  std::string text, name;  // of the file
  std::vector<ConfigOverride> overrides;
  ConfigUse use = ConfigUse::kTrain;
  int64_t ranks = 0;  // that a launcher has started; 0: none has, and num_processes says how many there are to be
};

struct LoadedConfig {
  Config config;
  // What `config` was resolved from: every key as it was said, else its default; of TRL's configs TRL's default.
  Spelled keys;
  ConfigSource source;
  // Every key with a value, as the file and the command line say it; then those of sections like `deepspeed`.
  Verdicts verdicts;
  // The one line about a file of a trainer whose configs are not read here; empty where it is none.
  std::string other_trainer;
  // What is wrong with keys that are fine by themselves; empty where nothing is.
  std::string conflict;
  // Keys without any effect here, as spelled, in the order of the file.
  std::vector<std::string> ignored;
  // What a key was taken to mean, a sentence each.
  std::vector<std::string> notes;
  bool shards_by_host = false;  // FSDP's hybrid_shard: states are split over the ranks of a host
  // Canonical name of every key with a value -> where it stands, as messages show it.
  std::map<std::string, std::string, std::less<>> given;
  // The same of every key that stands there without one.
  std::map<std::string, std::string, std::less<>> emptied;
  // Canonical name of every key that the file or the command line sets -> its name there, which may be an alias.
  std::map<std::string, std::string, std::less<>> spelled;
};

// Reads, applies overrides, and checks values and combinations; touches no other file but the one that `deepspeed:`
// names. `name` is the file's, for messages. Throws InputError for what is no config at all; what is wrong with a key
// is its verdict. The config is complete only where first_problem() is empty. `ranks` is ConfigSource::ranks.
[[nodiscard]] LoadedConfig check_config(std::string_view text, std::string_view name,
                                        std::span<const ConfigOverride> overrides, ConfigUse use, int64_t ranks = 0);

// The same from a file; `-` reads standard input, and an empty path no more than the overrides. Throws InputError, also
// for what is no regular file.
[[nodiscard]] LoadedConfig check_config_file(const std::string& path, std::span<const ConfigOverride> overrides,
                                             ConfigUse use, int64_t ranks = 0);

// Returns the message of what a user should mend first; empty if the config can be used.
[[nodiscard]] std::string first_problem(const LoadedConfig& loaded);

// check_config that throws the first problem as an InputError.
[[nodiscard]] LoadedConfig load_config(std::string_view text, std::string_view name,
                                       std::span<const ConfigOverride> overrides, ConfigUse use, int64_t ranks = 0);
[[nodiscard]] LoadedConfig load_config_file(const std::string& path, std::span<const ConfigOverride> overrides,
                                            ConfigUse use, int64_t ranks = 0);

// One text for what the source's text and its command line say, each key under the name that is in force. Throws
// InputError as load_config does.
[[nodiscard]] std::string written_config(const ConfigSource& source);

// The same config with more on its command line. Throws InputError as load_config does.
[[nodiscard]] LoadedConfig load_changed(const ConfigSource& source, std::span<const ConfigOverride> changes);

// Puts a word in the place of hub_token wherever the source has it, as reports show the source.
void hide_secrets(LoadedConfig& loaded);

// "ignored: wandb_project (why), tf32, use_cache (why)", what makes no difference and what is done instead; empty where
// nothing was ignored.
[[nodiscard]] std::string ignored_line(const LoadedConfig& loaded);

}  // namespace spillway::config
