#include "data/rows/chat_renderer.h"

#include "base/error.h"
#include "data/rows/conversation.h"
#include "data/rows/row_builder.h"
#include "text/left_out.h"
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

text::ChatInput ChatRenderer::input_of(const Record& record, const Json& messages, const Json& tools,
                                       bool add_generation_prompt) const {
  text::ChatInput input;
  input.messages = messages;
  input.tools = tools;
  input.add_generation_prompt = add_generation_prompt;
  input.variables = variables_;
  const Json* own = has_own_variables_ ? given_field(record, "chat_template_kwargs") : nullptr;
  if (own != nullptr && own->is_object()) input.variables.update(without_null_keys(*own));
  return input;
}

text::ChatTemplate::Rendered ChatRenderer::render(const Record& record, const text::ChatInput& input) const {
  if (!templates_)
    throw input_error(record.where,
                      "expected a chat template for messages, got a tokenizer without one; set chat_template: chatml "
                      "or another name");
  try {
    return text::render_chat(templates_->for_tools(input.tools), input, now_);
  } catch (const InputError& error) {
    throw not_taken(record, input.messages, error);
  }
}

text::ChatTemplate::Rendered ChatRenderer::render(const Record& record, const Json& messages, const Json& tools,
                                                  bool add_generation_prompt) const {
  return render(record, input_of(record, messages, tools, add_generation_prompt));
}

text::ChatTemplate::Rendered ChatRenderer::render(const Record& record, const Json& messages, const Json& tools,
                                                  bool add_generation_prompt, const IsLearned& is_learned,
                                                  LeftOutParts& left_out) const {
  const text::ChatInput input = input_of(record, messages, tools, add_generation_prompt);
  text::ChatTemplate::Rendered rendered = render(record, input);
  take_left_out(record, input, text::left_out(templates_->for_tools(tools), input, rendered.text, now_), is_learned,
                left_out);
  return rendered;
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

namespace {

// `from` and `value` as role and content, where nothing else is called so; further keys stay.
Json with_trl_names(const Json& message) {
  Json renamed = {{"role", message["from"]}, {"content", message["value"]}};
  for (const auto& [key, value] : message.items()) {
    if (key != "from" && key != "value" && !renamed.contains(key)) renamed[key] = value;
  }
  return renamed;
}

}  // namespace

Json messages_of(const Record& record, const Json& value, std::string_view name) {
  Json messages = list_of(record, value, name);
  for (Json& message : messages) {
    if (!message.is_object())
      throw input_error(record.where, "expected messages as objects in '{}', got {}; correct the row", name,
                        message.type_name());
    if (message.contains("from") && message.contains("value")) message = with_trl_names(message);
    const auto role = message.find("role");
    if (role != message.end() && role->is_string()) *role = usual_role(role->get<std::string>());
  }
  return messages;
}

Json tools_of(const Record& record) {
  const Json* tools = given_field(record, "tools");
  return tools == nullptr ? Json() : list_of(record, *tools, "tools");
}

}  // namespace spillway::data
