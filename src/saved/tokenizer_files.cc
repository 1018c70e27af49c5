#include "saved/tokenizer_files.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "model/token_ids.h"
#include "text/chat_template.h"
#include "text/chat_template_files.h"
#include "text/tokenizer/tokenizer_edits.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kTemplate = "chat_template.jinja";

Json object_of(const std::string& text, const fs::path& file) {
  auto json = parse_json<Json>(text, file.string());
  if (!json.is_object()) throw input_error(file.string(), "expected a JSON object, got something else; correct it");
  return json;
}

// Writes roles and added tokens as transformers stores them beside tokenizer.json.
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

// Returns the tokenizer with them.
text::Tokenizer add_tokens(const text::SpecialTokenNames& names, const fs::path& from, FileTexts& files) {
  const Json before = text::Tokenizer::load(from).added_tokens();
  text::Tokenizer tokenizer = text::Tokenizer::load(from, names);
  const Json added = tokenizer.added_tokens();
  if (added != before) {
    std::string& text = files[kTokenizer];
    text = text::with_added_tokens(text::with_token_texts(text, names.overrides, (from / kTokenizer).string()),
                                   json_text(added));
  }
  const auto edit = [&](const char* name, const std::string& text) {
    Json json = object_of(text, from / name);
    add_to_config(names, added, json);
    files[name] = json_text(json, 2) + "\n";
  };
  edit(kConfig, files.contains(kConfig) ? files[kConfig] : "{}");
  if (files.contains(kMap)) edit(kMap, files[kMap]);
  return tokenizer;
}

// Writes the template to its own file, as transformers 5 does, and replaces one in the tokenizer's config: programs
// that only read that would use another template than training.
void add_template(const std::string& source, const fs::path& from, FileTexts& files) {
  files[kTemplate] = source;
  const auto file = files.find(kConfig);
  if (file == files.end()) return;
  Json config = object_of(file->second, from / kConfig);
  const auto before = config.find("chat_template");
  if (before == config.end()) return;
  Json* place = &*before;
  if (before->is_array()) {  // several with names, of which only this one is another now
    for (Json& named : *before) {
      if (named.is_object() && named.value("name", Json()) == "default") place = &named["template"];
    }
    if (place == &*before) return;
  }
  *place = source;
  file->second = json_text(config, 2) + "\n";
}

// Writes templates of several files into the tokenizer's config, as transformers 4 does: its readers find them all
// there, and all files of a run lie in one folder.
void move_templates_to_config(const fs::path& from, FileTexts& files) {
  if (text::additional_chat_template_files(from).empty()) return;
  Json config = files.contains(kConfig) ? object_of(files[kConfig], from / kConfig) : Json::object();
  Json named = Json::array();
  for (const auto& [name, source] : text::read_chat_template_files(from))
    named.push_back({{"name", name}, {"template", source}});
  config["chat_template"] = std::move(named);
  files[kConfig] = json_text(config, 2) + "\n";
  files.erase(kTemplate);
}

}  // namespace

void add_tokenizer_files(const config::TokenizerSettings& settings, const data::RowOptions& rows, const fs::path& base,
                         FileTexts& files) {
  const fs::path from = settings.folder;
  for (const char* name : {kTokenizer, kConfig, kMap, "added_tokens.json", "tokenizer.model", "vocab.json",
                           "merges.txt", kTemplate, "generation_config.json"}) {
    if (fs::is_regular_file(from / name)) files[name] = read_file(from / name, kMaxBytes);
  }
  move_templates_to_config(from, files);
  std::optional<text::Tokenizer> now;
  if (settings.special_tokens != text::SpecialTokenNames{}) now = add_tokens(settings.special_tokens, from, files);
  if (!rows.chat_template.empty() || !rows.chat_template_jinja.empty()) {
    const std::optional<std::string> own = text::Tokenizer::load(from).chat_template();
    const text::ChosenTemplate chosen = text::choose_chat_template(rows.chat_template, rows.chat_template_jinja, own);
    if (chosen.source != own) add_template(chosen.source, from, files);
  }
  if (!fs::is_regular_file(base / kTokenizer)) return;
  if (!now && from != base) now = text::Tokenizer::load(from);
  if (!now) return;
  const text::Tokenizer before = text::Tokenizer::load(base);
  for (const char* name : kTokenIdFiles) {
    if (const auto file = files.find(name); file != files.end())
      file->second = with_token_ids(file->second, base / name, before, *now);
  }
}

}  // namespace spillway::train
