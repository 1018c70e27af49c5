// From a record of a data file to training rows, by the dataset's `type`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/dataset_options.h"
#include "data/files/record_reader.h"
#include "data/rows/row.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace spillway::data {

// Immutable after construction: any number of threads may build rows at once.
class RowBuilder {
 public:
  virtual ~RowBuilder() = default;
  // Appends the rows of one record: usually one, several where a type cuts long texts into pieces. Rows may be longer
  // than sequence_len. Throws InputError naming the record's place and what its fields should hold.
  virtual void build(const Record& record, std::vector<Row>& rows) const = 0;
};

// Throw InputError at `where` if `config.type` is none that rows of text, or of steps, are made by, naming those that
// are.
void check_text_type(const DatasetConfig& config, std::string_view where);
void check_steps_type(const DatasetConfig& config, std::string_view where);

// Returns the error that `config.type` is none of `names`, with the nearest of them.
[[nodiscard]] InputError no_such_type(const DatasetConfig& config, std::span<const std::string_view> names,
                                      std::string_view where);
// Returns the place of a dataset for messages: "datasets: PATH".
[[nodiscard]] std::string place_of(const DatasetConfig& config);

// The builder for `config.type`; borrows the tokenizer. Throws InputError for a type that does not exist, naming those
// that do, and for a chat template that cannot be used.
[[nodiscard]] std::unique_ptr<RowBuilder> make_row_builder(const DatasetConfig& config, const RowOptions& options,
                                                           const text::Tokenizer& tokenizer);

// The families of types; nullptr for a type of another family.
[[nodiscard]] bool is_text_rows_type(std::string_view type);
[[nodiscard]] bool is_chat_rows_type(std::string_view type);
[[nodiscard]] std::unique_ptr<RowBuilder> make_instruction_rows(const DatasetConfig& config, const RowOptions& options,
                                                                const text::Tokenizer& tokenizer);
[[nodiscard]] std::unique_ptr<RowBuilder> make_text_rows(const DatasetConfig& config, const RowOptions& options,
                                                         const text::Tokenizer& tokenizer);
[[nodiscard]] std::unique_ptr<RowBuilder> make_chat_rows(const DatasetConfig& config, const RowOptions& options,
                                                         const text::Tokenizer& tokenizer);
// For Objective::kSteps.
[[nodiscard]] std::unique_ptr<RowBuilder> make_stepwise_rows(const DatasetConfig& config, const RowOptions& options,
                                                             const text::Tokenizer& tokenizer);
// TRL's rules: what a row is follows from its columns.
[[nodiscard]] std::unique_ptr<RowBuilder> make_column_rows(const DatasetConfig& config, const RowOptions& options,
                                                           const text::Tokenizer& tokenizer);

// --- for builders ---

// A field of the record; throws InputError naming the fields there are, and `key`, the config's key for its name.
[[nodiscard]] const nlohmann::ordered_json& required_field(const Record& record, std::string_view name,
                                                           std::string_view key);
// The same, or nothing where it is missing. Null is missing: tables have it where a row says nothing.
[[nodiscard]] const nlohmann::ordered_json* given_field(const Record& record, std::string_view name);
// Its text; null is "".
[[nodiscard]] std::string text_of(const Record& record, const nlohmann::ordered_json& value, std::string_view name);
// The same where null is no answer: throws InputError for it.
[[nodiscard]] std::string given_text_of(const Record& record, const nlohmann::ordered_json& value,
                                        std::string_view name);
// Whether the value says yes: a boolean, or a number that is not 0, as Python's truth has it. Throws InputError for
// anything else.
[[nodiscard]] bool truth_of(const Record& record, const nlohmann::ordered_json& value, std::string_view name);
// The value without the keys of its objects, at any depth, whose value is null: Arrow, and so every reader and writer
// of `datasets`, gives all objects of a column the same keys. Items of lists stay. Time is linear.
[[nodiscard]] nlohmann::ordered_json without_null_keys(const nlohmann::ordered_json& value);
// A list that may be written as JSON text; null stays null. A list that is not text comes without_null_keys(), as in
// axolotl and TRL.
[[nodiscard]] nlohmann::ordered_json list_of(const Record& record, const nlohmann::ordered_json& value,
                                             std::string_view name);
// The ids with special tokens, brought to end with `end_tokens` EOS, at most one of which the text may bring along. A
// text without tokens stays without; so does an empty one, unless it is to have several EOS (axolotl's metharme).
[[nodiscard]] std::vector<int32_t> encode_to_end(const text::Tokenizer& tokenizer, std::string_view text,
                                                 int end_tokens = 1);
// Labels that are the ids.
[[nodiscard]] Row learn_all(std::vector<int32_t> ids);
// A row with input_ids, and labels and attention_mask where it has them. Without labels TRL's masks say what is
// learned: assistant_masks always, completion_mask with completion_only_loss. Ids may be any that the model's embedding
// has.
[[nodiscard]] Row tokenized_row(const Record& record, const RowOptions& options, const text::Tokenizer& tokenizer);
// The compiled template that dataset, config and tokenizer choose, in this order. One that the config names is for all
// conversations.
[[nodiscard]] text::ChatTemplates choose_chat_template(const DatasetConfig& config, const RowOptions& options,
                                                       const text::Tokenizer& tokenizer);
// bos_token and the like, as templates see them.
[[nodiscard]] nlohmann::ordered_json template_variables(const text::Tokenizer& tokenizer);
// The same with the config's own.
[[nodiscard]] nlohmann::ordered_json template_variables(const text::Tokenizer& tokenizer, const TemplateVariables& own);

}  // namespace spillway::data
