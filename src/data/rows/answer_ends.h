// Finds the tokens that end an answer in a row, by the tokens behind the answer's text and not by a list of templates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "data/rows/row_builder.h"
#include "text/tokenizer.h"

namespace spillway::data {

// Returns true for a message's role that answers others: any but user, system, tool and their like.
[[nodiscard]] bool is_answering_role(std::string_view role);

// Borrows the tokenizer. Immutable: any number of threads may ask at once.
class AnswerEnds {
 public:
  explicit AnswerEnds(const text::Tokenizer& tokenizer);

  // Returns true for a token that ends generation: the tokenizer's EOS, or one that generation_config.json lists.
  [[nodiscard]] bool stops(int32_t id) const { return stops_.contains(id); }
  // Returns where the first mark at or behind `from` stands: an added token or one that stops, with nothing but white
  // space before it. Nothing where text comes first, or the row ends.
  [[nodiscard]] std::optional<int64_t> mark_behind(std::span<const int32_t> ids, int64_t from) const;
  // Returns the marks that `ids` close with, in their order, white space between and behind them aside.
  [[nodiscard]] std::vector<int32_t> closing_marks(std::span<const int32_t> ids) const;
  // Returns those of the closing marks that end what was said: the ones that stop, or else the last.
  [[nodiscard]] std::vector<int32_t> closing_ends(std::span<const int32_t> ids) const;
  // Returns those of `ends`, and of the tokens that stop, which are targets: labels[0] is none.
  [[nodiscard]] std::vector<int32_t> learned(std::span<const int32_t> labels, std::span<const int32_t> ends) const;

 private:
  [[nodiscard]] bool is_blank(int32_t id) const;
  [[nodiscard]] bool is_mark(int32_t id) const { return stops(id) || added_.contains(id); }

  const text::Tokenizer& tokenizer_;
  std::set<int32_t> stops_, added_;  // of the added tokens those that are no white space
};

// Returns a builder that says of the rows of another where their answers end (Row::ends), as far as they do not say it
// themselves: by the marks at the end of the row, or of its first completion.
[[nodiscard]] std::unique_ptr<RowBuilder> with_answer_ends(std::unique_ptr<RowBuilder> builder, Objective objective,
                                                           const text::Tokenizer& tokenizer);

}  // namespace spillway::data
