#include "train/tokenizer_files.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "model/token_ids.h"
#include "text/chat_template.h"
#include "text/tokenizer/tokenizer_edits.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kTemplate = "chat_template.jinja";

Json read_object(const fs::path& file) {
  if (!fs::is_regular_file(file)) return Json::object();
  auto json = parse_json<Json>(read_file(file, kMaxBytes), file.string());
  if (!json.is_object()) throw input_error(file.string(), "expected a JSON object, got something else; correct it");
  return json;
}

// Roles and added tokens as transformers keeps them beside tokenizer.json.
void add_to_config(const text::SpecialTokenNames& names, const Json& added, Json& config) {
  for (const auto& [key, token] : {std::pair("bos_token", &names.bos_token),
                                   {"eos_token", &names.eos_token},
                                   {"pad_token", &names.pad_token},
                                   {"unk_token", &names.unk_token}}) {
    if (!token->empty()) config[key] = *token;
  }
  if (!names.additional_special_tokens.empty()) {
    config["additional_special_tokens"] = names.additional_special_tokens;
  }
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) return;
  for (Json token : added) {
    const std::string id = std::to_string(token["id"].get<int64_t>());
    token.erase("id");
    (*decoder)[id] = std::move(token);
  }
}

void save_added_tokens(const text::SpecialTokenNames& names, const fs::path& from, const fs::path& to) {
  const Json before = text::Tokenizer::load(from).added_tokens();
  const Json added = text::Tokenizer::load(from, names).added_tokens();
  if (added != before) {
    const fs::path path = from / "tokenizer.json";
    const std::string text = text::with_token_texts(read_file(path, kMaxBytes), names.overrides, path.string());
    write_file(to / "tokenizer.json", text::with_added_tokens(text, json_text(added)));
  }
  Json config = read_object(from / kConfig);
  add_to_config(names, added, config);
  write_file(to / kConfig, json_text(config, 2) + "\n");
  if (!fs::is_regular_file(from / kMap)) return;
  Json map = read_object(from / kMap);
  add_to_config(names, added, map);
  write_file(to / kMap, json_text(map, 2) + "\n");
}

}  // namespace

void save_tokenizer(const config::TokenizerSettings& settings, const data::RowOptions& rows, const fs::path& base,
                    const fs::path& to) {
  const fs::path from = settings.folder;
  for (const char* name : {"tokenizer.json", kConfig, kMap, "added_tokens.json", "tokenizer.model", "vocab.json",
                           "merges.txt", kTemplate, "generation_config.json"}) {
    if (fs::is_regular_file(from / name)) write_file(to / name, read_file(from / name, kMaxBytes));
  }
  if (settings.special_tokens != text::SpecialTokenNames{}) save_added_tokens(settings.special_tokens, from, to);
  if (!rows.chat_template.empty() || !rows.chat_template_jinja.empty()) {
    const std::optional<std::string> own = text::Tokenizer::load(from).chat_template();
    const text::ChosenTemplate chosen = text::choose_chat_template(rows.chat_template, rows.chat_template_jinja, own);
    if (chosen.source != own) write_file(to / kTemplate, chosen.source);
  }
  const bool is_changed = settings.special_tokens != text::SpecialTokenNames{} || from != base;
  if (is_changed && fs::is_regular_file(base / "tokenizer.json"))
    save_token_ids(to, text::Tokenizer::load(base), text::Tokenizer::load(to));
}

}  // namespace spillway::train
