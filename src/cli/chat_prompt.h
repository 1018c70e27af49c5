// Files of messages, rendered by a model's chat template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace spillway {

// JSON of a list of messages, or of an object with messages, tools, documents, add_generation_prompt,
// continue_final_message and chat_template_kwargs. `asks` is add_generation_prompt where the object does not say.
// Throws InputError at `where`.
[[nodiscard]] text::ChatInput chat_input(std::string_view text, const text::Tokenizer& tokenizer, bool asks,
                                         std::string_view where);

// The templates of a tokenizer; `model` is its folder. Throws InputError where there are none.
[[nodiscard]] text::ChatTemplates chat_templates_of(const text::Tokenizer& tokenizer, const std::string& model);

// A conversation, as for chat_input, ready to be answered. Throws InputError at `where`.
[[nodiscard]] std::string render_prompt(std::string_view text, const text::ChatTemplates& chats,
                                        const text::Tokenizer& tokenizer, std::string_view where);

// The prompts of a JSON file of one conversation, or of a JSON-lines file of many, ready to be answered. Throws
// InputError; `model` is the folder whose tokenizer it is.
[[nodiscard]] std::vector<std::string> render_prompts(const std::string& path, bool json_lines,
                                                      const text::Tokenizer& tokenizer, const std::string& model);

}  // namespace spillway
