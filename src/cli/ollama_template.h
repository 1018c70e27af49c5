// A chat template in Ollama's language, Go's text/template (https://docs.ollama.com/template), derived from a model's
// Jinja.
#pragma once

#include <optional>
#include <string>

#include "text/chat_template.h"

namespace spillway {

struct OllamaTemplate {
  std::string text;                   // of TEMPLATE
  std::optional<std::string> system;  // of SYSTEM: what the Jinja says where a conversation has no system message
  bool has_system = true;             // false: the Jinja has no place for a system message
};

// Takes the Jinja apart into what it puts around turns, by rendering a few conversations, and puts that together in
// Ollama's language. Returns nothing where another conversation shows that the Jinja does more than that. Tools,
// documents and reasoning are left out. `variables` are those of a rendering (special tokens); a text's `bos` is left
// out where it begins one, since Ollama adds it.
[[nodiscard]] std::optional<OllamaTemplate> ollama_template(const text::ChatTemplate& chat,
                                                            const nlohmann::ordered_json& variables,
                                                            const std::string& bos);

}  // namespace spillway
