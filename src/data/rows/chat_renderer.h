// Renders conversations of data rows to text, with the dataset's chat template.
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
  // Uses the template of the dataset, else of the config, else of the tokenizer; there may be none. Throws InputError
  // for a template that cannot be used.
  ChatRenderer(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer);

  // Renders a conversation. Throws InputError naming the record's place if there is no template, or the template
  // rejects the messages. `tools` is a list or null. Under TRL's rules, for a dataset without a type, the template also
  // sees the variables of `chat_template_kwargs` in the config and in the record.
  [[nodiscard]] text::ChatTemplate::Rendered render(const Record& record, const nlohmann::ordered_json& messages,
                                                    const nlohmann::ordered_json& tools,
                                                    bool add_generation_prompt) const;
  // The same; also calls take_left_out() with the parts that the template leaves out.
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

// Returns the error for messages that could not be rendered: with the message of the template or of another error, or
// with the message that has no content.
[[nodiscard]] InputError not_taken(const Record& record, const nlohmann::ordered_json& messages,
                                   const InputError& error);

// Returns the list of messages in a field, which may be JSON text. `from` and `value` are read as role and content, and
// roles are mapped by usual_role(). Throws InputError.
[[nodiscard]] nlohmann::ordered_json messages_of(const Record& record, const nlohmann::ordered_json& value,
                                                 std::string_view name);

// Returns the record's `tools`, a list or null. Throws InputError.
[[nodiscard]] nlohmann::ordered_json tools_of(const Record& record);

}  // namespace spillway::data
