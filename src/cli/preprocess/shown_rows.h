// Shows rows to people: which tokens are learned, which are only read, and how long rows are.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/preferences.h"
#include "data/rows/row_collector.h"
#include "data/rows/row_table.h"
#include "text/tokenizer.h"

namespace spillway {

// A sequence of tokens, each a target or not.
struct ShownRow {
  std::string name;  // "row 1", "row 1, chosen"
  std::vector<int32_t> ids;
  std::vector<bool> is_target;  // of each id; never of the first

  [[nodiscard]] int64_t targets() const;
};

// Returns the first `count` rows. REQUIRES: the rows have labels.
[[nodiscard]] std::vector<ShownRow> shown_rows(const data::RowTable& rows, int64_t count);
// Returns the completions of the first `count` rows, each after its prompt.
[[nodiscard]] std::vector<ShownRow> shown_rows(std::span<const data::PreferenceRow> rows, int64_t count);

// Returns text for a terminal: targets are green, other special tokens yellow; without colours, targets are between ⟦
// and ⟧. Control characters are escaped.
[[nodiscard]] std::string text_of_row(const ShownRow& row, const text::Tokenizer& tokenizer, bool colours);
// The keys are name, text, ids, is_target (0 or 1 each).
[[nodiscard]] nlohmann::ordered_json json_of_row(const ShownRow& row, const text::Tokenizer& tokenizer);

// Returns a line per bin with a bar, made of # for rows that stay whole, and the treatment of longer rows.
[[nodiscard]] std::string text_of_lengths(const data::DatasetSummary& read);

}  // namespace spillway
