// Rows by TRL's rules, where a dataset says no type: the columns decide. input_ids: tokenised; prompt and completion:
// the completion is learned; messages: a conversation; text (dataset_text_field): all of it is learned. Conversations
// may stand in prompt and completion, too, or in `conversations` with from and value.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/rows/row_builder.h"
#include "data/rows/token_spans.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

class ColumnRows : public RowBuilder {
 public:
  ColumnRows(const DatasetConfig& config, const RowOptions& options, const Tokenizer& tokenizer)
      : config_(config), options_(options), tokenizer_(tokenizer), variables_(template_variables(tokenizer)) {
    const bool has_template = !config.chat_template.empty() || !options.chat_template.empty() ||
                              !config.chat_template_jinja.empty() || !options.chat_template_jinja.empty() ||
                              tokenizer.chat_template();
    if (has_template) template_ = choose_chat_template(config, options, tokenizer);
  }

  void build(const Record& record, std::vector<Row>& rows) const override {
    const auto has = [&](const std::string& name) {
      return record.fields.contains(name) && !record.fields[name].is_null();
    };
    if (has("input_ids")) {
      rows.push_back(tokenized_row(record, tokenizer_));
    } else if (has("prompt") && has("completion")) {
      rows.push_back(record.fields["prompt"].is_string() ? text_pair(record) : chat_pair(record));
    } else if (has("messages") || has("conversations")) {
      const char* name = has("messages") ? "messages" : "conversations";
      rows.push_back(rendered_row(record, messages_of(record, name), options_.assistant_only_loss));
    } else {
      const std::string text =
          text_of(record, required_field(record, options_.dataset_text_field, "dataset_text_field (or type)"),
                  options_.dataset_text_field);
      rows.push_back(learn_all(tokenizer_.encode(with_eos(text), true)));
    }
  }

 private:
  [[nodiscard]] std::string with_eos(const std::string& text) const {
    const std::string eos = tokenizer_.eos_token();
    return text.ends_with(eos) ? text : text + eos;
  }

  [[nodiscard]] bool completion_only() const { return options_.completion_only_loss.value_or(true); }

  // Labels of what comes after the part that both encodings share.
  void ignore_prompt(Row& row, const std::vector<int32_t>& prompt) const {
    if (!completion_only()) return;
    const auto shared =
        std::mismatch(prompt.begin(), prompt.end(), row.input_ids.begin(), row.input_ids.end()).first - prompt.begin();
    std::fill_n(row.labels.begin(), shared, kIgnoredLabel);
  }

  [[nodiscard]] Row text_pair(const Record& record) const {
    const std::string prompt = text_of(record, record.fields["prompt"], "prompt");
    const std::string completion = with_eos(text_of(record, record.fields["completion"], "completion"));
    Row row = learn_all(tokenizer_.encode(prompt + completion, true));
    ignore_prompt(row, tokenizer_.encode(prompt, true));
    return row;
  }

  [[nodiscard]] Row chat_pair(const Record& record) const {
    const Json prompt = messages_of(record, "prompt");
    Json messages = prompt;
    for (const Json& message : messages_of(record, "completion")) messages.push_back(message);
    Row row = rendered_row(record, messages, options_.assistant_only_loss);
    ignore_prompt(row, tokenizer_.encode(render(record, prompt, true).text, false));
    return row;
  }

  // A list of messages; `from` and `value` are read as role and content.
  [[nodiscard]] static Json messages_of(const Record& record, const char* name) {
    Json messages = list_of(record, record.fields.at(name), name);
    for (Json& message : messages) {
      if (!message.is_object())
        throw input_error(record.where, "expected messages as objects in '{}', got {}; correct the row", name,
                          message.type_name());
      if (!message.contains("from") || !message.contains("value")) continue;
      message = Json{{"role", message["from"]}, {"content", message["value"]}};
    }
    return messages;
  }

  [[nodiscard]] ChatTemplate::Rendered render(const Record& record, const Json& messages,
                                              bool add_generation_prompt) const {
    if (!template_)
      throw input_error(record.where,
                        "expected a chat template for messages, got a tokenizer without one; set chat_template: chatml "
                        "or another name");
    ChatInput input;
    input.messages = messages;
    if (record.fields.contains("tools")) input.tools = list_of(record, record.fields["tools"], "tools");
    input.add_generation_prompt = add_generation_prompt;
    input.variables = variables_;
    if (record.fields.contains("chat_template_kwargs") && record.fields["chat_template_kwargs"].is_object()) {
      for (const auto& [name, value] : record.fields["chat_template_kwargs"].items()) input.variables[name] = value;
    }
    try {
      return render_chat(*template_, input);
    } catch (const InputError& error) {
      throw input_error(
          record.where,
          "expected a conversation that the template takes, got: {}; correct the row or choose another chat_template",
          error.what());
    }
  }

  [[nodiscard]] Row rendered_row(const Record& record, const Json& messages, bool assistant_only) const {
    const ChatTemplate::Rendered rendered = render(record, messages, false);
    Row row = learn_all(tokenizer_.encode(rendered.text, false));
    if (!assistant_only) return row;
    const auto mask = mask_of_ranges(tokenizer_, rendered.text, row.input_ids, rendered.generation_spans);
    if (!mask)
      throw input_error(record.where,
                        "expected a tokenizer whose tokens can be placed in the text for assistant_only_loss, got "
                        "another; use type: chat_template");
    if (std::count(mask->begin(), mask->end(), 1) == 0) {
      throw input_error(record.where,
                        "expected {{% generation %}} blocks with text in the chat template for assistant_only_loss, "
                        "got none; use type: chat_template");
    }
    for (size_t i = 0; i < mask->size(); ++i) {
      if ((*mask)[i] == 0) row.labels[i] = kIgnoredLabel;
    }
    return row;
  }

  DatasetConfig config_;
  RowOptions options_;
  const Tokenizer& tokenizer_;
  Json variables_;
  std::optional<ChatTemplate> template_;
};

}  // namespace

std::unique_ptr<RowBuilder> make_column_rows(const DatasetConfig& config, const RowOptions& options,
                                             const Tokenizer& tokenizer) {
  return std::make_unique<ColumnRows>(config, options, tokenizer);
}

}  // namespace spillway::data
