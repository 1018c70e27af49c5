// The page that --help prints, the same for every command.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct HelpRow {
  std::string what, meaning;  // "--out FOLDER", "the folder to write"
};

struct HelpSection {
  std::string title;  // empty: rows without one
  std::vector<HelpRow> rows;
};

struct HelpPage {
  std::string usage;  // "spillway merge MODEL --out FOLDER"
  std::string summary;
  std::vector<HelpSection> sections;
  std::vector<std::string> examples;  // command lines
};

// Meanings stand in one column; they and the usage are broken where a line would be longer than 100 columns.
[[nodiscard]] std::string help_text(const HelpPage& page);

}  // namespace spillway
