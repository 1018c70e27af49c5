#include "data/rows/chat_renderer.h"

#include "base/error.h"
#include "data/rows/row_builder.h"
#include "text/template_refusal.h"

namespace spillway::data {

using Json = nlohmann::ordered_json;

ChatRenderer::ChatRenderer(const DatasetConfig& config, const RowOptions& options, const text::Tokenizer& tokenizer)
    : has_own_variables_(!config.type.given),
      variables_(
          template_variables(tokenizer, has_own_variables_ ? options.chat_template_kwargs : TemplateVariables())),
      now_(options.now) {
  const bool has_template = !config.chat_template.empty() || !options.chat_template.empty() ||
                            !config.chat_template_jinja.empty() || !options.chat_template_jinja.empty() ||
                            tokenizer.chat_template();
  if (has_template) templates_ = choose_chat_template(config, options, tokenizer);
}

text::ChatTemplate::Rendered ChatRenderer::render(const Record& record, const Json& messages, const Json& tools,
                                                  bool add_generation_prompt) const {
  if (!templates_)
    throw input_error(record.where,
                      "expected a chat template for messages, got a tokenizer without one; set chat_template: chatml "
                      "or another name");
  text::ChatInput input;
  input.messages = messages;
  input.tools = tools;
  input.add_generation_prompt = add_generation_prompt;
  input.variables = variables_;
  if (has_own_variables_ && record.fields.contains("chat_template_kwargs") &&
      record.fields["chat_template_kwargs"].is_object()) {
    input.variables.update(record.fields["chat_template_kwargs"]);
  }
  try {
    return text::render_chat(templates_->for_tools(tools), input, now_);
  } catch (const InputError& error) {
    throw not_taken(record, messages, error);
  }
}

InputError not_taken(const Record& record, const Json& messages, const InputError& error) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const auto is_there = [&](const char* name) { return message.contains(name) && !message[name].is_null(); };
    if (message.is_object() && !is_there("content") && !is_there("tool_calls"))
      return input_error(record.where,
                         "expected text as the content of message {}, got null or nothing; correct the row", i + 1);
  }
  const auto* const refusal = dynamic_cast<const text::TemplateRefusal*>(&error);
  return input_error(
      record.where,
      "expected a conversation that the template takes, got {}; correct the row or choose another chat_template",
      refusal ? fmt::format("{} ({})", refusal->got(), refusal->place()) : fmt::format("an error: {}", error.what()));
}

Json messages_of(const Record& record, const Json& value, std::string_view name) {
  Json messages = list_of(record, value, name);
  for (Json& message : messages) {
    if (!message.is_object())
      throw input_error(record.where, "expected messages as objects in '{}', got {}; correct the row", name,
                        message.type_name());
    if (!message.contains("from") || !message.contains("value")) continue;
    message = Json{{"role", message["from"]}, {"content", message["value"]}};
  }
  return messages;
}

Json tools_of(const Record& record) {
  return record.fields.contains("tools") ? list_of(record, record.fields["tools"], "tools") : Json();
}

}  // namespace spillway::data
