#include "cli/modelfile.h"

#include <fmt/format.h>

namespace spillway {

std::string modelfile_text(const std::filesystem::path& from, const std::filesystem::path& adapter,
                           const text::Tokenizer& tokenizer) {
  // Ollama would look for a relative path beside the Modelfile.
  std::string text = fmt::format("FROM {}\n", std::filesystem::absolute(from).lexically_normal().string());
  if (!adapter.empty())
    text += fmt::format("ADAPTER {}\n", std::filesystem::absolute(adapter).lexically_normal().string());
  for (const int32_t id : tokenizer.stop_ids()) {
    const std::string token = tokenizer.id_to_token(id);
    // A parameter is one line in quotes, which the format cannot escape.
    if (!token.empty() && token.find_first_of("\"\n\r") == std::string::npos)
      text += fmt::format("PARAMETER stop \"{}\"\n", token);
  }
  return text;
}

}  // namespace spillway
