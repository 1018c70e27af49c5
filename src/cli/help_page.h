// The page that --help prints, in the same format for every command.
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

// Returns the text of a page. Meanings are aligned in one column; they and the usage are wrapped at 100 columns.
[[nodiscard]] std::string help_text(const HelpPage& page);

// Prints the page on standard output, or passes it to the HelpReader that waits for one. Every command answers --help
// with it.
void show_help(const HelpPage& page);

// Captures the page that --help would print, for files that are generated from all commands' pages. One at a time, on
// one thread.
class HelpReader {
 public:
  HelpReader();
  ~HelpReader();
  HelpReader(HelpReader&&) = delete;

  // The page that was shown last, if any.
  [[nodiscard]] const std::optional<HelpPage>& page() const { return page_; }

 private:
  friend void show_help(const HelpPage& page);
  std::optional<HelpPage> page_;
};

}  // namespace spillway
