#include "saved/tokenizer_files.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "text/chat_template.h"

using namespace spillway;

namespace fs = std::filesystem;

namespace {

constexpr const char* kTokenizer =
    R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "</s>": 2}, "unk_token": "a"}, "added_tokens": []})";

// With the config.json that is in the folder.
void save_tokenizer(const config::TokenizerSettings& settings, const data::RowOptions& rows, const fs::path& base,
                    const fs::path& to) {
  FileTexts files;
  if (fs::exists(to / "config.json")) files["config.json"] = read_file(to / "config.json", 1 << 20);
  train::add_tokenizer_files(settings, rows, base, files);
  for (const auto& [name, text] : files) write_file(to / name, text);
}

}  // namespace

TEST_CASE("a saved tokenizer has the tokens that training used") {
  const TemporaryFolder from, to;
  const auto saved = [&](const char* name) { return parse_json(read_file(to.path() / name, 1 << 20), name); };
  config::TokenizerSettings settings{.folder = from.path().string()};
  write_file(from.path() / "tokenizer.json", kTokenizer);
  write_file(from.path() / "tokenizer_config.json",
             R"({"eos_token": {"content": "</s>", "lstrip": false}, "bos_token": "a", "model_max_length": 8})");
  save_tokenizer(settings, {}, from.path(), to.path());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    CHECK(read_file(to.path() / name, 1 << 20) == read_file(from.path() / name, 1 << 20));
  }

  settings.special_tokens = {.eos_token = "</s>", .pad_token = "<pad>", .tokens = {"<x>", "b"}};
  save_tokenizer(settings, {}, from.path(), to.path());
  CHECK(saved("tokenizer_config.json") ==
        nlohmann::json{{"eos_token", "</s>"}, {"bos_token", "a"}, {"model_max_length", 8}, {"pad_token", "<pad>"}});
  CHECK_FALSE(fs::exists(to.path() / "special_tokens_map.json"));
  const text::Tokenizer tokenizer = text::Tokenizer::load(to.path());
  CHECK(tokenizer.vocabulary_size() == 5);
  CHECK(tokenizer.pad_id() == 3);
  CHECK(tokenizer.eos_id() == 2);
  CHECK(tokenizer.encode("<x>b<pad></s>a", false) == std::vector<int32_t>{4, 1, 3, 2, 0});
  CHECK(tokenizer.is_special(3));
  CHECK_FALSE(tokenizer.is_special(4));

  write_file(from.path() / "special_tokens_map.json", R"({"eos_token": "b"})");
  save_tokenizer(settings, {}, from.path(), to.path());
  CHECK(saved("special_tokens_map.json") == nlohmann::json{{"eos_token", "</s>"}, {"pad_token", "<pad>"}});
}

TEST_CASE("the model's files beside a saved tokenizer name its tokens") {
  const TemporaryFolder from, to;
  const auto id_in = [&](const char* name) {
    return parse_json(read_file(to.path() / name, 1 << 20), name)["eos_token_id"];
  };
  config::TokenizerSettings settings{.folder = from.path().string()};
  write_file(from.path() / "tokenizer.json", kTokenizer);
  write_file(from.path() / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  write_file(from.path() / "generation_config.json", R"({"eos_token_id": 2})");
  write_file(to.path() / "config.json", R"({"eos_token_id": 2})");
  save_tokenizer(settings, {}, from.path(), to.path());
  CHECK(id_in("config.json") == 2);
  CHECK(id_in("generation_config.json") == 2);
  settings.special_tokens = {.eos_token = "<end>"};
  save_tokenizer(settings, {}, from.path(), to.path());
  CHECK(id_in("config.json") == 3);
  CHECK(id_in("generation_config.json") == nlohmann::json{3, 2});
}

TEST_CASE("added tokens are given other texts, by id, in every file") {
  const TemporaryFolder from, to;
  write_file(from.path() / "tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "r\"0": 1, "b": 2},
    "unk_token": "a"}, "added_tokens": [{"id": 1, "content": "r\"0", "special": true}, {"id": 3, "content": "r1"}]})");
  write_file(from.path() / "tokenizer_config.json",
             R"({"added_tokens_decoder": {"1": {"content": "r\"0", "special": true}, "3": {"content": "r1"}}})");
  config::TokenizerSettings settings{.folder = from.path().string()};
  settings.special_tokens.overrides = {{1, "<call>"}, {3, "<\"end\">"}};
  save_tokenizer(settings, {}, from.path(), to.path());
  const text::Tokenizer now = text::Tokenizer::load(from.path(), settings.special_tokens);
  const text::Tokenizer saved = text::Tokenizer::load(to.path());
  const std::string text = "<call><\"end\">b";
  CHECK(now.encode(text, false) == std::vector<int32_t>{1, 3, 2});
  CHECK(saved.encode(text, false) == std::vector<int32_t>{1, 3, 2});
  CHECK(saved.token_to_id("r\"0") == std::nullopt);
  CHECK(saved.is_special(1));
  const auto decoder = parse_json(read_file(to.path() / "tokenizer_config.json", 1 << 20), "c")["added_tokens_decoder"];
  CHECK(decoder["1"]["content"] == "<call>");
  CHECK(decoder["3"]["content"] == "<\"end\">");
  settings.special_tokens.overrides = {{2, "x"}};
  CHECK_THROWS_AS(save_tokenizer(settings, {}, from.path(), to.path()), InputError);
}

TEST_CASE("a saved tokenizer has the chat template of the config") {
  const TemporaryFolder from, to;
  write_file(from.path() / "tokenizer.json", kTokenizer);
  save_tokenizer({.folder = from.path().string()}, {.chat_template = "chatml"}, from.path(), to.path());
  CHECK(text::Tokenizer::load(to.path()).chat_template() == std::string(*text::builtin_chat_template("chatml")));
}

TEST_CASE("no file of a saved tokenizer has the chat template that training did not use") {
  const TemporaryFolder from, to;
  write_file(from.path() / "tokenizer.json", kTokenizer);
  const std::string chatml(*text::builtin_chat_template("chatml"));
  const auto saved = [&](const nlohmann::json& before) {
    write_file(from.path() / "tokenizer_config.json", nlohmann::json{{"chat_template", before}}.dump());
    save_tokenizer({.folder = from.path().string()}, {.chat_template = "chatml"}, from.path(), to.path());
    CHECK(text::Tokenizer::load(to.path()).chat_template() == chatml);
    return parse_json(read_file(to.path() / "tokenizer_config.json", 1 << 20), "c")["chat_template"];
  };
  CHECK(saved("{{ messages[0].content }}") == chatml);
  const auto named = [](const char* name, const std::string& text) {
    return nlohmann::json{{"name", name}, {"template", text}};
  };
  CHECK(saved({named("default", "old"), named("tool_use", "tools")}) ==
        nlohmann::json{named("default", chatml), named("tool_use", "tools")});
  fs::remove(to.path() / "chat_template.jinja");
  CHECK(text::Tokenizer::load(to.path()).chat_template() == chatml);
}

TEST_CASE("a saved tokenizer has the templates of additional_chat_templates, unless the config names another") {
  const TemporaryFolder from, to;
  write_file(from.path() / "tokenizer.json", kTokenizer);
  write_file(from.path() / "chat_template.jinja", "D");
  fs::create_directory(from.path() / "additional_chat_templates");
  write_file(from.path() / "additional_chat_templates/tool_use.jinja", "T");
  save_tokenizer({.folder = from.path().string()}, {}, from.path(), to.path());
  const text::Tokenizer saved = text::Tokenizer::load(to.path());
  CHECK(saved.chat_template() == "D");
  CHECK(saved.chat_template("tool_use") == "T");
  save_tokenizer({.folder = from.path().string()}, {.chat_template = "chatml"}, from.path(), to.path());
  const text::Tokenizer chosen = text::Tokenizer::load(to.path());
  CHECK(chosen.chat_template() == std::string(*text::builtin_chat_template("chatml")));
  CHECK(chosen.chat_template("tool_use") == std::nullopt);
}
