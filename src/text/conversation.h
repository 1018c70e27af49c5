// Prepares conversations in JSON for a model's chat template.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/left_out_warnings.h"
#include "text/tokenizer.h"

namespace spillway::text {

// Reads a list of messages, or an object with messages, tools, documents, add_generation_prompt, continue_final_message
// and chat_template_kwargs; other members are ignored. `asks` is the default of add_generation_prompt. Throws
// InputError at `where`.
[[nodiscard]] ChatInput chat_input(const nlohmann::ordered_json& conversation, const Tokenizer& tokenizer, bool asks,
                                   std::string_view where);

// Returns the templates of a tokenizer; `model` is its folder. Throws InputError if there are none.
[[nodiscard]] ChatTemplates chat_templates_of(const Tokenizer& tokenizer, const std::string& model);

// Renders a conversation, as for chat_input, as the prompt for an answer. Throws InputError at `where`, also for
// messages that `warnings` refuses.
[[nodiscard]] std::string render_prompt(const nlohmann::ordered_json& conversation, const ChatTemplates& chats,
                                        const Tokenizer& tokenizer, std::string_view where, LeftOutWarnings& warnings);

}  // namespace spillway::text
