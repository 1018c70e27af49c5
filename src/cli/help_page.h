// The page that --help prints, the same for every command.
#pragma once

#include <optional>
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

// Prints the page on standard output, or leaves it with the HelpReader that waits for one: what answers --help.
void show_help(const HelpPage& page);

// Takes the page that --help would print, for what is made of all commands' pages. One at a time, on one thread.
class HelpReader {
 public:
  HelpReader();
  ~HelpReader();
  HelpReader(HelpReader&&) = delete;

  // What was shown last, if anything was.
  [[nodiscard]] const std::optional<HelpPage>& page() const { return page_; }

 private:
  friend void show_help(const HelpPage& page);
  std::optional<HelpPage> page_;
};

}  // namespace spillway
