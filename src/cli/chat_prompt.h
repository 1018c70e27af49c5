// Files of messages, rendered by a model's chat template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/conversation.h"

namespace spillway {

// A conversation (text/conversation.h) as JSON text, ready to be answered. Throws InputError at `where`.
[[nodiscard]] std::string render_prompt(std::string_view text, const text::ChatTemplates& chats,
                                        const text::Tokenizer& tokenizer, std::string_view where,
                                        text::LeftOutWarnings& warnings);

// The prompts of a JSON file of one conversation, or of a JSON-lines file of many, ready to be answered. Throws
// InputError; `model` is the folder whose tokenizer it is.
[[nodiscard]] std::vector<std::string> render_prompts(const std::string& path, bool json_lines,
                                                      const text::Tokenizer& tokenizer, const std::string& model);

}  // namespace spillway
