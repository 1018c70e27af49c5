#include "text/tokenizer_differences.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "text/tokenizer/special_tokens.h"

namespace spillway::text {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 28;

std::string text_of(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  return fs::is_regular_file(path) ? read_file(path, kMostBytes) : std::string();
}

nlohmann::json config_of(const fs::path& folder) {
  constexpr const char* kName = "tokenizer_config.json";
  const std::string text = text_of(folder, kName);
  return text.empty() ? nlohmann::json::object() : parse_config(text, (folder / kName).string());
}

std::string word_of(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string other_ids_in_transformers(const fs::path& folder) {
  const std::string name = word_of(config_of(folder), "tokenizer_class");
  if (name != "LlamaTokenizer" && name != "LlamaTokenizerFast") return {};
  const std::string model = text_of(folder, "config.json");
  // A config.json may have bare infinities, which are no JSON; its model_type is a plain text in any case.
  if (model.find(R"("model_type": "llama")") == std::string::npos) return {};
  if (text_of(folder, "tokenizer.json").find(R"("Prepend")") == std::string::npos) return {};
  return fmt::format(
      "{}: text behind a special token begins with a space here, as tokenizer.json says; transformers 5 makes its {} "
      "anew, without it (docs/data/tokenizers.md)",
      folder.string(), name);
}

std::string other_answers_in_trl(const fs::path& folder) {
  const nlohmann::json config = config_of(folder);
  for (const char* key : {"response_template", "response_schema"})
    if (const auto found = config.find(key); found != config.end() && !found->is_null())
      return fmt::format(
          "{}/tokenizer_config.json: {}: TRL's GRPO takes answers apart by it, and gives reward functions their "
          "content "
          "without thoughts and tool calls; here they get the whole text",
          folder.string(), key);
  return {};
}

}  // namespace spillway::text
