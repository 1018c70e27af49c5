// Renders files of messages with a model's chat template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/conversation.h"

namespace spillway {

// Returns the prompt of a conversation (text/conversation.h) in JSON text, ready to be answered. Throws InputError at
// `where`.
[[nodiscard]] std::string render_prompt(std::string_view text, const text::ChatTemplates& chats,
                                        const text::Tokenizer& tokenizer, std::string_view where,
                                        text::LeftOutWarnings& warnings);

// Returns the prompts of a JSON file with one conversation, or of a JSON-lines file with many, ready to be answered.
// Throws InputError; `model` is the folder of the tokenizer.
[[nodiscard]] std::vector<std::string> render_prompts(const std::string& path, bool json_lines,
                                                      const text::Tokenizer& tokenizer, const std::string& model);

}  // namespace spillway
