// What a shell can complete of a command, read from the page that its --help shows.
#pragma once

#include <cstdint>
#include <string>
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

// "--out FOLDER" is an option, "MODEL" an argument, "--KEY VALUE" stands for all keys. What a value is is told by its
// name: FOLDER, FILE..., CONFIG.yml and MODEL are paths.
[[nodiscard]] CompletedCommand completed_command(std::string name, std::string summary, const HelpPage& page);

}  // namespace spillway
