#include "train/tokenizer_files.h"

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";

nlohmann::ordered_json read_object(const fs::path& file) {
  if (!fs::is_regular_file(file)) return nlohmann::ordered_json::object();
  auto json = parse_json<nlohmann::ordered_json>(read_file(file, kMostBytes), file.string());
  if (!json.is_object()) throw input_error(file.string(), "expected a JSON object, got something else; correct it");
  return json;
}

}  // namespace

void copy_tokenizer_files(const fs::path& from, const fs::path& to, const data::SpecialTokenNames& special) {
  for (const char* name : {"tokenizer.json", kConfig, kMap, "added_tokens.json", "tokenizer.model", "vocab.json",
                           "merges.txt", "chat_template.jinja", "generation_config.json"}) {
    if (fs::is_regular_file(from / name)) write_file(to / name, read_file(from / name, kMostBytes));
  }
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  for (const auto& [key, token] : {std::pair("bos_token", &special.bos_token),
                                   {"eos_token", &special.eos_token},
                                   {"pad_token", &special.pad_token},
                                   {"unk_token", &special.unk_token}}) {
    if (!token->empty()) tokens[key] = *token;
  }
  if (tokens.empty()) return;
  for (const char* name : {kConfig, kMap}) {
    if (name == kMap && !fs::is_regular_file(from / kMap)) continue;
    nlohmann::ordered_json json = read_object(from / name);
    json.update(tokens);
    write_file(to / name, json_text(json, 2) + "\n");
  }
}

}  // namespace spillway::train
