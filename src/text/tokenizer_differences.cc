#include "text/tokenizer_differences.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "io/file.h"

namespace spillway::text {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxJsonBytes = int64_t{1} << 28;

// Returns the object in a file of the folder: an empty one where there is no file, or no JSON (a config.json may have
// bare infinities).
nlohmann::json object_in(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  if (!fs::is_regular_file(path)) return nlohmann::json::object();
  nlohmann::json result = parse_json(read_file(path, kMaxJsonBytes), path.string());
  return result.is_object() ? result : nlohmann::json::object();
}

// The pattern by which transformers' Qwen2Tokenizer cuts a text.
constexpr std::string_view kQwensPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Returns true if a tokenizer.json normalises and cuts texts as transformers' Qwen2Tokenizer does.
bool is_qwens(const nlohmann::json& tokenizer) {
  const nlohmann::json nothing;
  const nlohmann::json normalizer = tokenizer.value("normalizer", nothing);
  const std::string cuts = json_text(tokenizer.value("pre_tokenizer", nothing));
  return normalizer.is_object() && normalizer.value("type", nothing) == "NFC" &&
         cuts.find(json_text(nlohmann::json(kQwensPattern))) != std::string::npos;
}

}  // namespace

std::string other_ids_in_transformers(const fs::path& folder) {
  const nlohmann::json nothing, model = object_in(folder, "config.json").value("model_type", nothing),
                                name = object_in(folder, "tokenizer_config.json").value("tokenizer_class", nothing);
  const bool is_llama = (name == "LlamaTokenizer" || name == "LlamaTokenizerFast") && model == "llama";
  const bool is_qwen = name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast" || model == "qwen2";
  if (!is_llama && !is_qwen) return {};
  const nlohmann::json tokenizer = object_in(folder, "tokenizer.json");
  if (is_llama && json_text(tokenizer.value("normalizer", nothing)).find(R"("Prepend")") != std::string::npos)
    return fmt::format(
        "{}: text behind a special token begins with a space here, as tokenizer.json says; transformers 5 makes its {} "
        "anew, without it (docs/data/tokenizers.md)",
        folder.string(), name.get_ref<const std::string&>());
  if (is_qwen && !tokenizer.empty() && !is_qwens(tokenizer))
    return fmt::format(
        "{}: texts are normalised and cut as tokenizer.json says; transformers 5 makes its Qwen2Tokenizer anew, whose "
        "ids of some texts are others (docs/data/tokenizers.md)",
        folder.string());
  return {};
}

std::string other_answers_in_trl(const fs::path& folder) {
  const nlohmann::json config = object_in(folder, "tokenizer_config.json");
  for (const char* key : {"response_template", "response_schema"})
    if (const auto found = config.find(key); found != config.end() && !found->is_null())
      return fmt::format(
          "{}/tokenizer_config.json: {}: TRL's GRPO takes answers apart by it, and gives reward functions their "
          "content without thoughts and tool calls; here they get the whole text",
          folder.string(), key);
  return {};
}

}  // namespace spillway::text
