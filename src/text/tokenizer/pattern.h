// A pattern of tokenizer.json, {"String": ...} or {"Regex": ...}.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/json_field.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/text_budget.h"

namespace spillway::text {

class Pattern {
 public:
  explicit Pattern(const JsonField& field) : kind_(read(field)) {}
  explicit Pattern(Regex regex) : kind_(std::move(regex)) {}
  // REQUIRES: not empty.
  explicit Pattern(std::string literal) : kind_(std::move(literal)) {}

  // Does the same as Regex::find_all; a literal needs no scratch but takes one.
  template <typename Found>
  void find_all(std::string_view text, RegexScratch& scratch, const Found& found) const {
    if (const auto* regex = std::get_if<Regex>(&kind_)) return regex->find_all(text, scratch, found);
    const std::string_view literal = std::get<std::string>(kind_);
    for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size()) {
      found(at, at + literal.size());
    }
  }

  // Appends `text` with every match replaced by `content`.
  void replace(std::string_view text, std::string_view content, RegexScratch& scratch, const TextBudget& budget,
               std::string& out) const {
    size_t done = 0;
    find_all(text, scratch, [&](size_t begin, size_t end) {
      out.append(text.substr(done, begin - done)).append(content);
      done = end;
      budget.check(out.size());
    });
    out.append(text.substr(done));
  }

 private:
  static std::variant<std::string, Regex> read(const JsonField& field) {
    if (!field["Regex"].is_null()) return Regex(field["Regex"].string(), field.where());
    const std::string& literal = field["String"].string();
    if (literal.empty()) throw field.bad("a pattern of at least one character", "remove the step that has it");
    return literal;
  }

  std::variant<std::string, Regex> kind_;
};

}  // namespace spillway::text
