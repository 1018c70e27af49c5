// What Ollama makes a model of: https://docs.ollama.com/modelfile
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace spillway {

// The text of a Modelfile for `from`, a GGUF file or a model folder, with `adapter` (a GGUF file) where it is not
// empty, and the tokens at which generation ends. The chat template is left to the GGUF file.
[[nodiscard]] std::string modelfile_text(const std::filesystem::path& from, const std::filesystem::path& adapter,
                                         const text::Tokenizer& tokenizer);

}  // namespace spillway
