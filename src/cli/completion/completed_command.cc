#include "cli/completion/completed_command.h"

#include <utility>

namespace spillway {

CompletedValue completed_value(std::string_view name) {
  if (name.empty()) return CompletedValue::kNothing;
  if (name == "FOLDER" || name.ends_with("_DIR")) return CompletedValue::kFolder;
  if (name.starts_with("FILE") || name == "CONFIG.yml" || name == "MODEL") return CompletedValue::kFile;
  return CompletedValue::kText;
}

CompletedCommand completed_command(std::string name, std::string summary, const HelpPage& page) {
  CompletedCommand command{.name = std::move(name), .summary = std::move(summary)};
  for (const HelpSection& section : page.sections) {
    for (const HelpRow& row : section.rows) {
      const size_t space = row.what.find(' ');
      const std::string value = space == std::string::npos ? "" : row.what.substr(space + 1);
      if (!row.what.starts_with("--")) {
        command.argument = completed_value(row.what);
      } else if (row.what == "--KEY VALUE") {
        command.takes_keys = true;
      } else {
        command.options.push_back({row.what.substr(0, space), completed_value(value), value, row.meaning});
      }
    }
  }
  command.options.push_back({"--help", CompletedValue::kNothing, "", "what the command takes"});
  return command;
}

}  // namespace spillway
