// Finds the tokens that end an answer in a row, by the tokens after the answer's text and not by a list of templates.
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

// Returns true for the role of a message that answers others: any but user, system, tool and the like.
[[nodiscard]] bool is_answering_role(std::string_view role);

// Borrows the tokenizer. Immutable: any number of threads may use it at once.
class AnswerEnds {
 public:
  explicit AnswerEnds(const text::Tokenizer& tokenizer);

  // Returns true for a token that ends generation: the tokenizer's EOS, or one that generation_config.json lists.
  [[nodiscard]] bool stops(int32_t id) const { return stops_.contains(id); }
  // Returns the position of the first mark at or after `from`: an added token or one that ends generation, with nothing
  // but white space before it. Returns nothing if text comes first, or the row ends.
  [[nodiscard]] std::optional<int64_t> mark_behind(std::span<const int32_t> ids, int64_t from) const;
  // Returns the marks at the end of `ids`, in their order; white space between and after them is ignored.
  [[nodiscard]] std::vector<int32_t> closing_marks(std::span<const int32_t> ids) const;
  // Returns the closing marks that end the answer: the ones that end generation, or else the last.
  [[nodiscard]] std::vector<int32_t> closing_ends(std::span<const int32_t> ids) const;
  // Returns those of `ends`, and of the tokens that end generation, which are targets; labels[0] is never one.
  [[nodiscard]] std::vector<int32_t> learned(std::span<const int32_t> labels, std::span<const int32_t> ends) const;

 private:
  [[nodiscard]] bool is_blank(int32_t id) const;
  [[nodiscard]] bool is_mark(int32_t id) const { return stops(id) || added_.contains(id); }

  const text::Tokenizer& tokenizer_;
  std::set<int32_t> stops_, added_;  // of the added tokens those that are no white space
};

// Returns a builder that adds to the rows of another where their answers end (Row::ends), unless they say it
// themselves: by the marks at the end of the row, or of its first completion.
[[nodiscard]] std::unique_ptr<RowBuilder> with_answer_ends(std::unique_ptr<RowBuilder> builder, Objective objective,
                                                           const text::Tokenizer& tokenizer);

}  // namespace spillway::data
