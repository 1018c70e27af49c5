// The completions of a command, read from the page that its --help shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help_page.h"

namespace spillway {

// The kind of value of an option or a positional argument.
enum class CompletedValue : uint8_t {
  kNothing,  // an option without a value
  kText,     // anything
  kFolder,   // a folder
  kFile,     // a file, or a folder
};

struct CompletedOption {
  std::string name;  // "--out"
  CompletedValue value = CompletedValue::kNothing;
  std::string value_name;  // "FOLDER"
  std::string meaning;
};

struct CompletedCommand {
  std::string name, summary;
  std::vector<CompletedOption> options;
  CompletedValue argument = CompletedValue::kNothing;  // what it takes beside options
  bool takes_keys = false;                             // --KEY VALUE of a config
};

// A config key: "memory.device".
struct CompletedKey {
  std::string name, meaning;
};

// Returns the kind of a value by its name in the help: FOLDER, OUTPUT_DIR, FILE..., CONFIG.yml and MODEL are paths.
[[nodiscard]] CompletedValue completed_value(std::string_view name);
[[nodiscard]] inline bool is_path_name(std::string_view name) {
  const CompletedValue value = completed_value(name);
  return value == CompletedValue::kFolder || value == CompletedValue::kFile;
}

// Reads the page of a command: "--out FOLDER" is an option, "MODEL" an argument, and "--KEY VALUE" stands for all keys.
[[nodiscard]] CompletedCommand completed_command(std::string name, std::string summary, const HelpPage& page);

}  // namespace spillway
