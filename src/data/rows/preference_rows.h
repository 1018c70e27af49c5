// Preference rows: a prompt with a chosen and a rejected completion, or with one completion that is desirable or not.
//
// A dataset's `type` (or, without one, TRL's columns) says how a record becomes PreferenceExamples; preference_rows.cc
// tokenises those for the objective.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"
#include "data/rows/chat_renderer.h"
#include "data/rows/row_builder.h"
#include "data/rows/row_table.h"
#include "text/tokenizer.h"

namespace spillway::data {

struct PreferenceRow {
  std::vector<int32_t> prompt_ids;
  std::vector<std::vector<int32_t>> completions;  // chosen and rejected; of an unpaired row the one there is
  bool label = true;                              // of an unpaired row: whether the completion is wanted
  float margin = 0;                               // of conversations: by how much the chosen one is to win
  LeftOutParts left_out;                          // of the conversations
};

// Joins the parts into one run of tokens with the columns of the objective's schema.
[[nodiscard]] Row joined_row(const PreferenceRow& row, Objective objective);
// The inverse of joined_row(), for rows of the objective's schema.
[[nodiscard]] PreferenceRow preference_of(const Row& row, Objective objective);
[[nodiscard]] PreferenceRow preference_of(const RowTable& rows, int64_t index);

// A row before it is tokenised. Prompt and completions are all texts, or all lists of messages.
struct PreferenceExample {
  nlohmann::ordered_json prompt;
  std::vector<nlohmann::ordered_json> completions;
  bool label = true;
  float margin = 0;
  LeftOutParts left_out;  // of conversations that are texts by now
};

// Turns records into examples. Immutable: any number of threads may read at once.
class PreferenceFormat {
 public:
  virtual ~PreferenceFormat() = default;
  // Throws InputError naming the record's place and the expected content of its fields.
  [[nodiscard]] virtual PreferenceExample read(const Record& record) const = 0;
};

// Throws InputError if `config.type` makes no rows of the objective, naming the types that do.
void check_preference_type(const DatasetConfig& config, Objective objective, std::string_view where);

// Returns the format of the dataset's `type`: axolotl's for DPO, ORPO and KTO, a mapping, and bradley_terry's. Throws
// InputError for an unknown type, naming those that exist. Borrows tokenizer and renderer.
[[nodiscard]] std::unique_ptr<PreferenceFormat> make_preference_format(const DatasetConfig& config, Objective objective,
                                                                       const ChatRenderer& renderer);
// The same for a mapping.
[[nodiscard]] std::unique_ptr<PreferenceFormat> make_user_defined_format(const DatasetType& type, Objective objective);
// The format of TRL's columns: prompt (optional if the completions have a common start), chosen and rejected; or
// prompt, completion, label.
[[nodiscard]] std::unique_ptr<PreferenceFormat> make_preference_columns(const DatasetConfig& config);

// Reads a column that says whether a completion is desirable: true, false, 1, 0, or one of these as text. Throws
// InputError.
[[nodiscard]] bool label_of(const Record& record, std::string_view column);

// Makes rows from records. Immutable: any number of threads may build at once.
class PreferenceBuilder : public RowBuilder {
 public:
  PreferenceBuilder(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer);

  // Appends one row; or, if an unpaired objective reads pairs, two, the desirable completion first. Prompt and
  // completion are encoded together and split where the encodings of the prompt and of the whole diverge. Rows of a
  // reward model have whole conversations as completions and no prompt. Throws InputError.
  void build(const Record& record, std::vector<PreferenceRow>& rows) const;
  // The same, joined.
  void build(const Record& record, std::vector<Row>& rows) const override;

 private:
  using Ids = std::vector<int32_t>;
  // A rendered conversation contains its special tokens.
  [[nodiscard]] Ids encode(const std::string& text, bool is_rendered) const;
  [[nodiscard]] Ids encode_prompt(const Record& record, const PreferenceExample& example) const;
  // Adds the parts that a template leaves out of it to `left_out`.
  [[nodiscard]] Ids encode_whole(const Record& record, const PreferenceExample& example,
                                 const nlohmann::ordered_json& completion, LeftOutParts& left_out) const;
  [[nodiscard]] PreferenceRow tokenize(const Record& record, const PreferenceExample& example) const;

  const text::Tokenizer& tokenizer_;
  Objective objective_;
  bool is_typed_;  // the text comes out of a type, whose template may have written a BOS
  ChatRenderer renderer_;
  std::unique_ptr<PreferenceFormat> format_;
};

}  // namespace spillway::data
