// Finds the white space with which a model has to begin its answers.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace spillway::data {

// Returns the white space that the template writes between its generation prompt and an answer (Mistral's "[/INST]" and
// a space). Empty where it is a token of its own before every answer: axolotl takes that for a part of the prompt,
// since it stands before its stand-in for an answer, too. Empty also for a template that takes no conversation of a
// question and an answer. `variables` and `now` are those of text::ChatInput and text::render_chat().
[[nodiscard]] std::string white_space_before_answers(const text::ChatTemplate& chat_template,
                                                     const nlohmann::ordered_json& variables,
                                                     const std::optional<std::tm>& now,
                                                     const text::Tokenizer& tokenizer);

}  // namespace spillway::data
