// Rows as a person reads them: what is learnt, what is only read, and how long rows are.
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

// The first `count` rows. REQUIRES: the rows have labels.
[[nodiscard]] std::vector<ShownRow> shown_rows(const data::RowTable& rows, int64_t count);
// The completions of the first `count` rows, each behind its prompt.
[[nodiscard]] std::vector<ShownRow> shown_rows(std::span<const data::PreferenceRow> rows, int64_t count);

// Text for a terminal: targets green, other special tokens yellow, the rest as it is; or without colours, targets
// between ⟦ and ⟧. Control characters are escaped.
[[nodiscard]] std::string text_of_row(const ShownRow& row, const text::Tokenizer& tokenizer, bool colours);
// name, text, ids, is_target (0 or 1 each).
[[nodiscard]] nlohmann::ordered_json json_of_row(const ShownRow& row, const text::Tokenizer& tokenizer);

// A line a bin, with a bar, of # for rows that stay whole; and what becomes of those that are longer.
[[nodiscard]] std::string text_of_lengths(const data::DatasetSummary& read);

}  // namespace spillway
