// Conversations as JSON, made ready for a model's chat template.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/left_out.h"
#include "text/tokenizer.h"

namespace spillway::text {

// A list of messages, or an object with messages, tools, documents, add_generation_prompt, continue_final_message and
// chat_template_kwargs; what else it has is ignored. `asks` is add_generation_prompt where the object does not say.
// Throws InputError at `where`.
[[nodiscard]] ChatInput chat_input(const nlohmann::ordered_json& conversation, const Tokenizer& tokenizer, bool asks,
                                   std::string_view where);

// The templates of a tokenizer; `model` is its folder. Throws InputError where there are none.
[[nodiscard]] ChatTemplates chat_templates_of(const Tokenizer& tokenizer, const std::string& model);

// A conversation, as for chat_input, ready to be answered. Throws InputError at `where`, for what `warnings` check()s,
// too.
[[nodiscard]] std::string render_prompt(const nlohmann::ordered_json& conversation, const ChatTemplates& chats,
                                        const Tokenizer& tokenizer, std::string_view where, LeftOutWarnings& warnings);

}  // namespace spillway::text
