// Makes training rows from a record of a data file, by the dataset's `type`.
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
  // Appends the rows of one record: usually one; several if a type cuts long texts into pieces. Rows may be longer than
  // sequence_len. Throws InputError naming the record's place and the expected content of its fields.
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

// Returns the builder for `config.type`; borrows the tokenizer. Throws InputError for an unknown type, naming those
// that exist, and for a chat template that cannot be used.
[[nodiscard]] std::unique_ptr<RowBuilder> make_row_builder(const DatasetConfig& config, const RowOptions& options,
                                                           const text::Tokenizer& tokenizer);

// The families of types. The builders are null for a type of another family.
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
// Builds rows by TRL's rules: the columns of a row say what it is.
[[nodiscard]] std::unique_ptr<RowBuilder> make_column_rows(const DatasetConfig& config, const RowOptions& options,
                                                           const text::Tokenizer& tokenizer);

// --- for builders ---

// Returns a field of the record; throws InputError naming the fields that exist, and `key`, the config's key for the
// field's name.
[[nodiscard]] const nlohmann::ordered_json& required_field(const Record& record, std::string_view name,
                                                           std::string_view key);
// Returns the field, or null if it is missing. Null counts as missing: tables have it in rows that say nothing.
[[nodiscard]] const nlohmann::ordered_json* given_field(const Record& record, std::string_view name);
// Returns the text of a value; "" for null.
[[nodiscard]] std::string text_of(const Record& record, const nlohmann::ordered_json& value, std::string_view name);
// The same, but throws InputError for null.
[[nodiscard]] std::string given_text_of(const Record& record, const nlohmann::ordered_json& value,
                                        std::string_view name);
// Returns true if the value is true, or a number that is not 0, as in Python. Throws InputError for anything but
// booleans and numbers.
[[nodiscard]] bool truth_of(const Record& record, const nlohmann::ordered_json& value, std::string_view name);
// Returns the value without the keys of its objects, at any depth, whose value is null: Arrow, and so every reader and
// writer of `datasets`, gives all objects of a column the same keys. Items of lists stay. Takes linear time.
[[nodiscard]] nlohmann::ordered_json without_null_keys(const nlohmann::ordered_json& value);
// Returns a list that may be written as JSON text; null stays null. A list that is not text is passed through
// without_null_keys(), as in axolotl and TRL.
[[nodiscard]] nlohmann::ordered_json list_of(const Record& record, const nlohmann::ordered_json& value,
                                             std::string_view name);
// Returns the ids with special tokens, adjusted to end with `end_tokens` EOS, at most one of which may come from the
// text. A text without tokens stays without; so does an empty one, unless it is to have several EOS (axolotl's
// metharme).
[[nodiscard]] std::vector<int32_t> encode_to_end(const text::Tokenizer& tokenizer, std::string_view text,
                                                 int end_tokens = 1);
// Returns a row whose labels are the ids.
[[nodiscard]] Row learn_all(std::vector<int32_t> ids);
// Returns a row that is tokenised already: input_ids, and labels and attention_mask if it has them. Without labels,
// TRL's masks say which tokens are learned: assistant_masks always, completion_mask with completion_only_loss. Ids may
// be any that the model's embedding has.
[[nodiscard]] Row tokenized_row(const Record& record, const RowOptions& options, const text::Tokenizer& tokenizer);
// Returns the compiled template of the dataset, else of the config, else of the tokenizer. A template that the config
// names applies to all conversations.
[[nodiscard]] text::ChatTemplates choose_chat_template(const DatasetConfig& config, const RowOptions& options,
                                                       const text::Tokenizer& tokenizer);
// Returns bos_token and the like, as templates see them.
[[nodiscard]] nlohmann::ordered_json template_variables(const text::Tokenizer& tokenizer);
// The same with the config's own variables.
[[nodiscard]] nlohmann::ordered_json template_variables(const text::Tokenizer& tokenizer, const TemplateVariables& own);

}  // namespace spillway::data
