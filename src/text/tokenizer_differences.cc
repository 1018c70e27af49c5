#include "text/tokenizer_differences.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

}  // namespace

std::string other_ids_in_transformers(const fs::path& folder) {
  const nlohmann::json config = object_in(folder, "tokenizer_config.json");
  const nlohmann::json name = config.value("tokenizer_class", nlohmann::json());
  if (name != "LlamaTokenizer" && name != "LlamaTokenizerFast") return {};
  if (object_in(folder, "config.json").value("model_type", nlohmann::json()) != "llama") return {};
  const nlohmann::json normalizer = object_in(folder, "tokenizer.json").value("normalizer", nlohmann::json());
  if (json_text(normalizer).find(R"("Prepend")") == std::string::npos) return {};
  return fmt::format(
      "{}: text behind a special token begins with a space here, as tokenizer.json says; transformers 5 makes its {} "
      "anew, without it (docs/data/tokenizers.md)",
      folder.string(), name.get_ref<const std::string&>());
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
