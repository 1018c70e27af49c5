#include "cli/help_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace spillway {
namespace {

constexpr size_t kColumns = 100, kIndent = 2, kGap = 2, kUsageColumn = 7;

HelpReader* reader = nullptr;  // that waits for a page

// The text in lines of at most `width` columns, each but the first behind `indent` spaces. Words stay whole.
std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string result;
  while (text.size() > width) {
    size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = text.find(' ', width);
    if (end == std::string_view::npos) break;
    result += fmt::format("{}\n{:{}}", text.substr(0, end), "", indent);
    text.remove_prefix(end + 1);
  }
  result += text;
  return result;
}

}  // namespace

std::string help_text(const HelpPage& page) {
  size_t widest = 0;
  for (const HelpSection& section : page.sections) {
    for (const HelpRow& row : section.rows) widest = std::max(widest, row.what.size());
  }
  const size_t column = kIndent + widest + kGap;
  std::string text =
      fmt::format("usage: {}\n\n{}\n", wrapped(page.usage, kColumns - kUsageColumn, kUsageColumn), page.summary);
  for (const HelpSection& section : page.sections) {
    if (section.rows.empty()) continue;
    text += section.title.empty() ? "\n" : fmt::format("\n{}\n", section.title);
    for (const HelpRow& row : section.rows) {
      text += fmt::format("{:{}}{:<{}}{}\n", "", kIndent, row.what, widest + kGap,
                          wrapped(row.meaning, kColumns - column, column));
    }
  }
  if (!page.examples.empty()) text += "\nExamples\n";
  for (const std::string& example : page.examples) text += fmt::format("{:{}}{}\n", "", kIndent, example);
  return text;
}

void show_help(const HelpPage& page) {
  if (reader != nullptr) {
    reader->page_ = page;
  } else {
    fmt::print("{}", help_text(page));
  }
}

HelpReader::HelpReader() {
  SPILLWAY_CHECK(reader == nullptr, "two HelpReaders");
  reader = this;
}

HelpReader::~HelpReader() { reader = nullptr; }

}  // namespace spillway
