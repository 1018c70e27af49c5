// What a shell can complete of a command, read from the page that its --help shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help_page.h"

namespace spillway {

// What follows an option, or stands as an argument.
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

// A key of a config: "memory.device".
struct CompletedKey {
  std::string name, meaning;
};

// What a value is, by the name that stands for it: FOLDER, OUTPUT_DIR, FILE..., CONFIG.yml and MODEL are paths.
[[nodiscard]] CompletedValue completed_value(std::string_view name);
[[nodiscard]] inline bool is_path_name(std::string_view name) {
  const CompletedValue value = completed_value(name);
  return value == CompletedValue::kFolder || value == CompletedValue::kFile;
}

// "--out FOLDER" is an option, "MODEL" an argument, "--KEY VALUE" stands for all keys.
[[nodiscard]] CompletedCommand completed_command(std::string name, std::string summary, const HelpPage& page);

}  // namespace spillway
