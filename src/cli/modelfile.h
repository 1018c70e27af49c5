// Writes a Modelfile, from which Ollama creates a model: https://docs.ollama.com/modelfile
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace spillway {

// Returns the text of a Modelfile for `from`, a GGUF file or a model folder, with `adapter`, a GGUF file, unless that
// is empty, and the tokens at which generation ends. The chat template is left to the GGUF file.
[[nodiscard]] std::string modelfile_text(const std::filesystem::path& from, const std::filesystem::path& adapter,
                                         const text::Tokenizer& tokenizer);

}  // namespace spillway
