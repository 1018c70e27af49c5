// Conversations of data rows to text, with the dataset's chat template.
#pragma once

#include <ctime>
#include <optional>

#include "base/error.h"
#include "data/dataset_options.h"
#include "data/files/record_reader.h"
#include "data/rows/left_out_parts.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace spillway::data {

// Immutable: any number of threads may render at once.
class ChatRenderer {
 public:
  // The template that dataset, config and tokenizer choose, in this order; there may be none. Throws InputError for one
  // that cannot be used.
  ChatRenderer(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer);

  // Throws InputError naming the record's place: for want of a template, and for what the template does not take.
  // `tools` is a list or null. Under TRL's rules, of a dataset without a type, the template also sees the variables of
  // the config's and of the record's own `chat_template_kwargs`.
  [[nodiscard]] text::ChatTemplate::Rendered render(const Record& record, const nlohmann::ordered_json& messages,
                                                    const nlohmann::ordered_json& tools,
                                                    bool add_generation_prompt) const;
  // The same, and take_left_out() of what the template leaves out.
  [[nodiscard]] text::ChatTemplate::Rendered render(const Record& record, const nlohmann::ordered_json& messages,
                                                    const nlohmann::ordered_json& tools, bool add_generation_prompt,
                                                    const IsLearned& is_learned, LeftOutParts& left_out) const;

 private:
  [[nodiscard]] text::ChatInput input_of(const Record& record, const nlohmann::ordered_json& messages,
                                         const nlohmann::ordered_json& tools, bool add_generation_prompt) const;
  [[nodiscard]] text::ChatTemplate::Rendered render(const Record& record, const text::ChatInput& input) const;

  std::optional<text::ChatTemplates> templates_;
  bool has_own_variables_;
  nlohmann::ordered_json variables_;
  std::optional<std::tm> now_;
};

// Returns the error for messages that could not be rendered: with the words of the template or of another error, or
// with the message that has no content.
[[nodiscard]] InputError not_taken(const Record& record, const nlohmann::ordered_json& messages,
                                   const InputError& error);

// A list of messages out of a field, perhaps as JSON text; `from` and `value` are read as role and content, and roles
// are usual_role()s. Throws InputError.
[[nodiscard]] nlohmann::ordered_json messages_of(const Record& record, const nlohmann::ordered_json& value,
                                                 std::string_view name);

// The record's `tools`, a list or null. Throws InputError.
[[nodiscard]] nlohmann::ordered_json tools_of(const Record& record);

}  // namespace spillway::data
