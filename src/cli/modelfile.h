// Writes a Modelfile, from which Ollama creates a model: https://docs.ollama.com/modelfile
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace spillway {

struct ModelfileSource {
  std::string from;              // a GGUF file, or a model folder; a relative path counts from the Modelfile's folder
  std::string adapter;           // a GGUF file; empty: none
  std::filesystem::path folder;  // whose tokenizer and generation_config.json the model has
};

// Returns the text of a Modelfile: the chat template in Ollama's language, with the system message that it has for
// conversations without one, the tokens at which generation ends, and the sampling of generation_config.json. Where the
// template cannot be had in that language, a comment says so, and a warning is logged.
[[nodiscard]] std::string modelfile_text(const ModelfileSource& source, const text::Tokenizer& tokenizer);

}  // namespace spillway
