// SentencePiece's `Precompiled` normalizer: a table of replacements, as a double-array trie and the texts it points to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/text_budget.h"

namespace spillway::text {

// Immutable; any thread may use it.
class Precompiled {
 public:
  // `charsmap` is the table in base64, or null: no replacements. Throws InputError if it is no such table.
  explicit Precompiled(const JsonField& charsmap);

  // Appends `text` normalized. The unit is the grapheme: one of less than 6 bytes is replaced as a whole if the table
  // has an entry for its beginning; else each of its characters is looked up by itself. Throws the budget's errors.
  // REQUIRES: valid UTF-8.
  void apply(std::string_view text, const TextBudget& budget, std::string& out) const;

 private:
  // Returns the replacement of `text`'s shortest prefix that is in the table.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;
  [[nodiscard]] size_t grapheme_end(std::string_view text, size_t begin) const;
  void append(std::string_view part, std::string& out) const;

  // The units of Darts-clone: bits 0-7 and 31 are the label, 8 says that a leaf follows, 10-30 are the offset, in units
  // of 256 if bit 9 is set.
  std::vector<uint32_t> units_;
  std::string texts_;                    // each ends with a zero
  std::array<bool, 128> is_replaced_{};  // ASCII
};

}  // namespace spillway::text
