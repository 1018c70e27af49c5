#include "text/tokenizer.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "text/tokenizer/tokenizer_edits.h"

using spillway::text::with_added_tokens;
using namespace spillway;
using nlohmann::json;
using text::Tokenizer;

namespace {

const std::filesystem::path kTokenizerGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/tokenizer";

json read_json(const std::string& name) { return json::parse(read_file(kTokenizerGolden / name, 1 << 24)); }

Tokenizer golden_tokenizer(const std::string& name, std::string_view config = "") {
  return Tokenizer::from_json(read_json(name + ".json")["tokenizer"].dump(), config, "");
}

std::vector<std::string> golden_texts(const json& golden) {
  std::vector<std::string> texts = read_json("texts.json");
  for (const json& text : golden["texts"]) texts.push_back(text);
  return texts;
}

// Returns a byte-level tokenizer of the letters a, b, c and the merge "a b".
json small_tokenizer() {
  return json::parse(R"({"added_tokens": [{"id": 4, "content": "<s>", "special": true}], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"ids": [4]}}},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})");
}

std::string load_error(const std::string& text, const std::string& config = "") {
  try {
    (void)Tokenizer::from_json(text, config, "");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ids and decoded text equal those of the tokenizers library for every family") {
  int families = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTokenizerGolden)) {
    const std::string name = entry.path().stem();
    if (name == "texts") continue;
    ++families;
    const json golden = read_json(name + ".json");
    const Tokenizer tokenizer = Tokenizer::from_json(golden["tokenizer"].dump(), "", name);
    const std::vector<std::string> texts = golden_texts(golden);
    REQUIRE(golden["ids"].size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(name);
      CAPTURE(texts[i]);
      const std::vector<int32_t> ids = tokenizer.encode(texts[i], true);
      CHECK(ids == golden["ids"][i].get<std::vector<int32_t>>());
      CHECK(tokenizer.encode(texts[i], false) == golden["plain_ids"][i].get<std::vector<int32_t>>());
      CHECK(tokenizer.decode(ids, false) == golden["decoded"][i].get<std::string>());
      CHECK(tokenizer.decode(ids, true) == golden["skipped"][i].get<std::string>());
    }
  }
  CHECK(families >= 30);
}

TEST_CASE("a stream of ids decodes to the text of all of them, character by character") {
  for (const std::string name : {"qwen", "mistral", "gemma", "metaspace", "suffix", "word_level", "byte_holes"}) {
    const json golden = read_json(name + ".json");
    const Tokenizer tokenizer = golden_tokenizer(name);
    for (const json& ids : golden["ids"]) {
      CAPTURE(name);
      const std::vector<int32_t> all = ids;
      Tokenizer::StreamDecoder stream(tokenizer, true);
      std::string text;
      for (const int32_t id : all) text += stream.push(id);
      text += stream.finish();
      CHECK(text == tokenizer.decode(all, true));
    }
  }
}

TEST_CASE("a stream holds a character back until its last byte") {
  const Tokenizer tokenizer = golden_tokenizer("mistral");
  Tokenizer::StreamDecoder stream(tokenizer, false);
  for (const char* token : {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>"})
    CHECK(stream.push(*tokenizer.token_to_id(token)) == "");
  CHECK(stream.finish() == "\xF0\x9F\x98\x80");
}

TEST_CASE("tokens are found in their text") {
  for (const std::string name : {"qwen", "mistral", "gemma", "phi4"}) {
    const Tokenizer tokenizer = golden_tokenizer(name);
    const std::string text = "Hello the <|im_start|>w\xC3\xB6rld \xE4\xBD\xA0\xE5\xA5\xBD  \xF0\x9F\x98\x80\n12";
    const std::vector<int32_t> ids = tokenizer.encode(text, false);
    std::string joined;
    for (const auto& [begin, end] : tokenizer.locate(text, ids)) {
      CHECK(begin >= static_cast<int64_t>(joined.size()));
      CHECK(end >= begin);
      joined = text.substr(0, static_cast<size_t>(end));
    }
    CAPTURE(name);
    CHECK(joined == text);
  }
}

TEST_CASE("invalid UTF-8 counts as U+FFFD") {
  const Tokenizer tokenizer = golden_tokenizer("qwen");
  CHECK(tokenizer.encode("a\xE2\x82z\xFF", false) == tokenizer.encode("a\xEF\xBF\xBDz\xEF\xBF\xBD", false));
  CHECK(tokenizer.decode(tokenizer.encode("\xC3", false), false) == "\xEF\xBF\xBD");
}

TEST_CASE("a long text without a split takes bounded time") {
  std::string text;
  for (int i = 0; i < 400'000; ++i) text.push_back(static_cast<char>('a' + i % 7));
  CHECK(!golden_tokenizer("mistral").encode(text, false).empty());
  CHECK(!golden_tokenizer("llama3").encode(text, false).empty());
}

TEST_CASE("threads share a tokenizer") {
  const json golden = read_json("llama3.json");
  const Tokenizer tokenizer = golden_tokenizer("llama3");
  const std::vector<std::string> texts = golden_texts(golden);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        if (tokenizer.encode(texts[i], true) != golden["ids"][i].get<std::vector<int32_t>>()) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("special tokens have roles, and templates have names") {
  const Tokenizer tokenizer = golden_tokenizer("qwen", R"({"bos_token": null, "eos_token": {"content": "<|im_end|>"},
    "pad_token": "<|endoftext|>", "unk_token": null,
    "chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})");
  CHECK(!tokenizer.bos_id());
  CHECK(tokenizer.bos_token() == "");
  CHECK(tokenizer.eos_token() == "<|im_end|>");
  CHECK(tokenizer.eos_id() == tokenizer.token_to_id("<|im_end|>"));
  CHECK(tokenizer.stop_ids() == std::vector<int32_t>{*tokenizer.eos_id()});
  CHECK(tokenizer.pad_id() == tokenizer.token_to_id("<|endoftext|>"));
  CHECK(!tokenizer.unk_id());
  CHECK(tokenizer.is_special(*tokenizer.eos_id()));
  CHECK(!tokenizer.is_special(*tokenizer.token_to_id("<think>")));
  CHECK(tokenizer.chat_template() == "D");
  CHECK(tokenizer.chat_template("tool_use") == "T");
  CHECK(!tokenizer.chat_template("other"));
  CHECK(tokenizer.vocabulary_size() == *tokenizer.token_to_id("</think>") + 1);
  CHECK(tokenizer.id_to_token(-1) == "");
  CHECK(tokenizer.id_to_token(1 << 30) == "");
}

TEST_CASE("a folder is read with the small files beside tokenizer.json") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("spillway_tokenizer_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  CHECK_THROWS_AS((void)Tokenizer::load(folder), InputError);
  write("tokenizer.json", small_tokenizer().dump());
  CHECK(Tokenizer::load(folder).encode("abc", true) == std::vector<int32_t>{4, 3, 2});
  write("special_tokens_map.json", R"({"eos_token": "<s>"})");
  write("generation_config.json", R"({"eos_token_id": [2, 4]})");
  write("tokenizer_config.json", R"({"chat_template": "old"})");
  write("chat_template.jinja", "new");
  const Tokenizer tokenizer = Tokenizer::load(folder);
  CHECK(tokenizer.eos_id() == 4);
  CHECK(tokenizer.stop_ids() == std::vector<int32_t>{2, 4});
  CHECK(tokenizer.chat_template() == "new");
  std::filesystem::remove_all(folder);
}

// As in transformers 5.24, which gives these eos_token, pad_token and unk_token for such files.
TEST_CASE(
    "special_tokens_map.json comes before a tokenizer's config that lists no added tokens, and else is not read") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path() / name) << text; };
  const auto roles = [&](const std::string& more) {
    write("tokenizer_config.json", R"({"eos_token": "a", "pad_token": "a", "bos_token": "a", "unk_token": "b")" + more);
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    return fmt::format("eos {} pad {} bos {} unk {}", tokenizer.eos_token(), tokenizer.pad_token(),
                       tokenizer.bos_token(), tokenizer.unk_token());
  };
  write("tokenizer.json", small_tokenizer().dump());
  CHECK(roles("}") == "eos a pad a bos a unk b");
  write("special_tokens_map.json", R"({"eos_token": "<s>", "pad_token": {"content": "<s>"}, "unk_token": null})");
  CHECK(roles("}") == "eos <s> pad <s> bos a unk ");
  CHECK(roles(R"(, "added_tokens_decoder": {}})") == "eos a pad a bos a unk b");
}

// Ids, number of tokens and decoded text of PreTrainedTokenizerFast (transformers 5.24) with such files.
TEST_CASE("tokens of the files beside tokenizer.json get the ids and flags that transformers gives them") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path() / name) << text; };
  const auto read = [&](const char* config, const char* map, const char* added, const char* text) {
    for (const auto& [name, content] :
         {std::pair("tokenizer_config.json", config), {"special_tokens_map.json", map}, {"added_tokens.json", added}}) {
      std::filesystem::remove(folder.path() / name);
      if (*content != '\0') write(name, content);
    }
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    const std::vector<int32_t> ids = tokenizer.encode(text, false);
    return fmt::format("{} of {}: {}", fmt::join(ids, " "), tokenizer.vocabulary_size(), tokenizer.decode(ids, true));
  };
  constexpr const char* kText = "a <s> b<x>c<y>a";
  write("tokenizer.json", small_tokenizer().dump());
  CHECK(read("", "", "", kText) == "0 4 1 2 0 of 5: abca");
  CHECK(read(R"({"added_tokens_decoder": {"6": {"content": "<y>", "special": true}, "5": {"content": "<x>"}}})", "", "",
             kText) == "0 4 1 5 2 6 0 of 7: ab<x>ca");
  CHECK(read("", "", R"({"<y>": 5, "<x>": 6})", kText) == "0 4 1 6 2 5 0 of 7: ab<x>c<y>a");
  CHECK(read(R"({"extra_special_tokens": ["<y>"]})", "", R"({"<y>": 5, "<x>": 6})", kText) ==
        "0 4 1 6 2 5 0 of 7: ab<x>ca");
  CHECK(read(R"({"added_tokens_decoder": {}})", "", R"({"<y>": 5, "<x>": 6})", kText) == "0 4 1 2 0 of 5: abca");
  CHECK(read(R"({"extra_special_tokens": ["<y>", "<x>"]})", "", "", kText) == "0 4 1 6 2 5 0 of 7: abca");
  CHECK(read(R"({"extra_special_tokens": {"z_token": "<y>", "a_token": "<x>"}})", "", "", kText) ==
        "0 4 1 6 2 5 0 of 7: abca");
  CHECK(read(R"({"additional_special_tokens": ["<x>"]})", "", "", kText) == "0 4 1 5 2 0 of 6: abca");
  CHECK(read("", R"({"additional_special_tokens": ["<x>"]})", "", kText) == "0 4 1 5 2 0 of 6: abca");
  CHECK(read(R"({"eos_token": "<x>", "z_token": "<y>"})", "", "", kText) == "0 4 1 5 2 6 0 of 7: abca");
  CHECK(read(R"({"z_token": "<y>", "a_token": "<x>"})", "", "", kText) == "0 4 1 6 2 5 0 of 7: abca");
  CHECK(read(R"({"eos_token": "ab"})", "", "", "cab") == "2 3 of 5: c");
  CHECK(read(R"({"eos_token": "<x>", "added_tokens_decoder": {"5": {"content": "<x>"}}})", "", "", kText) ==
        "0 4 1 5 2 0 of 6: abca");
  // Ids that leave a gap are a warning, as in tokenizer.json.
  CHECK(read(R"({"added_tokens_decoder": {"9": {"content": "<x>"}, "7": {"content": "<y>"}}})", "", "", kText) ==
        "0 4 1 6 2 5 0 of 7: ab<x>c<y>a");
  CHECK(read(R"({"split_special_tokens": true, "eos_token": "<x>"})", "", "", "ab<s>ab<x>ab") == "3 3 3 of 6: ababab");

  json with_space = small_tokenizer();
  with_space["model"]["vocab"]["\u0120"] = 4;
  with_space["added_tokens"][0]["id"] = 5;
  with_space["post_processor"]["special_tokens"]["<s>"]["ids"] = {5};
  write("tokenizer.json", with_space.dump());
  CHECK(read("", "", "", "a <s> b") == "0 4 5 4 1 of 6: a  b");
  CHECK(read(R"({"added_tokens_decoder": {"5": {"content": "<s>", "special": true, "lstrip": true, "rstrip": true}}})",
             "", "", "a <s> b") == "0 5 1 of 6: ab");
}

// As in transformers 5.24: get_chat_template() of such folders, without tools and with them.
TEST_CASE("the files of chat templates stand for all those of the tokenizer's config") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder.path() / name) << text; };
  const auto chosen = [&] {
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    return tokenizer.chat_template().value_or("none") + " " + tokenizer.chat_template("tool_use").value_or("none");
  };
  write("tokenizer.json", small_tokenizer().dump().c_str());
  write("tokenizer_config.json", R"({"chat_template": {"default": "D", "tool_use": "T"}})");
  CHECK(chosen() == "D T");
  write("chat_template.jinja", "file");
  CHECK(chosen() == "file none");
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "tools");
  write("additional_chat_templates/notes.txt", "no template");
  CHECK(chosen() == "file tools");
  CHECK(Tokenizer::load(folder.path()).chat_templates().size() == 2);
  std::filesystem::remove(folder.path() / "chat_template.jinja");
  CHECK(chosen() == "none tools");
}

// As transformers 5.24 makes a generation config of a model's config where a folder has none.
TEST_CASE("generation ends at the ids of config.json or its text_config where there is no generation_config.json") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path() / name) << text; };
  const auto stops = [&] { return Tokenizer::load(folder.path()).stop_ids(); };
  write("tokenizer.json", small_tokenizer().dump());
  CHECK(stops().empty());
  write("config.json", R"({"vocab_size": 5})");
  CHECK(stops().empty());
  write("config.json", R"({"eos_token_id": [1, -5]})");
  CHECK_THROWS_WITH_AS((void)stops(), doctest::Contains("got -5"), InputError);
  write("config.json", R"({"rope_theta": Infinity, "text_config": {"eos_token_id": [1, 5]}})");
  CHECK(stops() == std::vector<int32_t>{1, 5});
  write("config.json", R"({"eos_token_id": 3, "text_config": {"eos_token_id": [1, 5]}})");
  CHECK(stops() == std::vector<int32_t>{3});
  write("generation_config.json", R"({"eos_token_id": 2})");
  CHECK(stops() == std::vector<int32_t>{2});
  write("generation_config.json", "{}");
  CHECK(stops().empty());
}

TEST_CASE("a small file that is a link to nothing or empty is an error, and not as if it were not there") {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    std::ofstream(folder.path() / "tokenizer.json") << small_tokenizer().dump();
    const auto refuses = [&] {
      CHECK_THROWS_WITH_AS((void)Tokenizer::load(folder.path()), doctest::Contains(name), InputError);
    };
    std::ofstream(folder.path() / name).close();
    refuses();
    std::filesystem::remove(folder.path() / name);
    std::filesystem::create_symlink("blobs/gone", folder.path() / name);
    refuses();
  }
}

TEST_CASE("added tokens are written into a tokenizer.json that stays as it is otherwise") {
  CHECK(with_added_tokens(R"({"a": [{"added_tokens": 1}], "added_tokens" : [ {"id": "]"} ], "b": 1.50})", "[7]") ==
        R"({"a": [{"added_tokens": 1}], "added_tokens" : [7], "b": 1.50})");
  CHECK(with_added_tokens(R"({"k": "added_tokens", "added_tokens": null, "b": "\"}"})", "[7]") ==
        R"({"k": "added_tokens", "added_tokens": [7], "b": "\"}"})");
  CHECK(with_added_tokens(R"({"added_tokens": null})", "[7]") == R"({"added_tokens": [7]})");
  CHECK(with_added_tokens(R"({"added_tokens": []})", "[7]") == R"({"added_tokens": [7]})");
  CHECK(with_added_tokens(R"({"model": {}})", "[7]") == R"({"added_tokens": [7],"model": {}})");
}

TEST_CASE("tokens that are added get the library's ids") {
  Tokenizer tokenizer = golden_tokenizer("qwen");
  const auto size = static_cast<int32_t>(tokenizer.vocabulary_size());
  const int32_t end = *tokenizer.token_to_id("<|im_end|>");
  tokenizer.add_tokens({.eos_token = "<|im_end|>", .pad_token = "<pad>", .tokens = {"<x>", "a", "<x>"}});
  CHECK(tokenizer.encode("b<x><pad>a<|im_end|>", false) ==
        std::vector<int32_t>{*tokenizer.token_to_id("b"), size + 1, size, *tokenizer.token_to_id("a"), end});
  CHECK(tokenizer.eos_id() == end);
  CHECK(tokenizer.decode(std::vector<int32_t>{size, size + 1}, true) == "<x>");
  const Tokenizer again = Tokenizer::from_json(
      with_added_tokens(read_json("qwen.json")["tokenizer"].dump(), tokenizer.added_tokens().dump()), "", "again");
  CHECK(again.encode("<x><pad>", false) == std::vector<int32_t>{size + 1, size});
  CHECK_THROWS_AS(tokenizer.add_tokens({.tokens = {""}}), InputError);
}

TEST_CASE("a bad tokenizer.json is refused with its place") {
  const std::string good = small_tokenizer().dump();
  REQUIRE(load_error(good) == "no error");
  for (size_t size = 0; size < good.size(); size += 7) {
    CHECK(load_error(good.substr(0, size)).starts_with("[tokenizer.json] expected JSON, got a syntax error at byte"));
  }
  const auto with = [](const char* pointer, const json& value) {
    json document = small_tokenizer();
    document[json::json_pointer(pointer)] = value;
    return load_error(document.dump());
  };
  const auto starts = [](const std::string& text, const char* start) {
    CAPTURE(text);
    CHECK(text.starts_with(start));
    CHECK(text.find('\n') == std::string::npos);
  };
  starts(load_error("[]"), "[tokenizer.json] expected a JSON object");
  starts(load_error("{}"), "[tokenizer.json: model]");
  starts(load_error(std::string(100'000, '[')), "[tokenizer.json] expected at most 64 nested");
  starts(with("/model/type", "Nope"), "[tokenizer.json: model.type] expected BPE, Unigram, WordPiece or WordLevel");
  starts(with("/model/type", "Unigram"), "[tokenizer.json: model.vocab] expected a list of pieces with scores");
  starts(with("/model/vocab", 3), "[tokenizer.json: model.vocab] expected an object");
  starts(with("/model/vocab/a", "x"), "[tokenizer.json: model.vocab] expected an integer");
  starts(with("/model/vocab/a", 1.5), "[tokenizer.json: model.vocab] expected an integer");
  starts(with("/model/vocab/a", -1), "[tokenizer.json: model.vocab] expected ids from 0");
  starts(with("/model/vocab/a", 1e18), "[tokenizer.json: model.vocab] expected an integer");
  starts(with("/model/vocab/a", 18'000'000'000'000'000'000u), "[tokenizer.json: model.vocab] expected ids from 0");
  starts(with("/model/vocab/a", 1), "[tokenizer.json: model.vocab] expected one token for each id");
  starts(with("/model/merges", {"a z"}),
         "[tokenizer.json: model.merges[0]] expected tokens of the vocabulary, got 'z'");
  starts(with("/model/merges", {"b c"}),
         "[tokenizer.json: model.merges[0]] expected tokens of the vocabulary, got 'bc'");
  starts(with("/model/merges", {"ab"}), "[tokenizer.json: model.merges[0]] expected a pair");
  starts(with("/model/merges", {"a b", json::array({"a"})}), "[tokenizer.json: model.merges[1]] expected a pair");
  starts(with("/model/merges", {{{"a", 1}}}), "[tokenizer.json: model.merges[0]] expected a pair");
  starts(with("/model/dropout", 0.1), "[tokenizer.json: model.dropout] expected no dropout");
  starts(with("/normalizer", {{"type", "Nmt"}}), "[tokenizer.json: normalizer.type]");
  starts(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}),
         "[tokenizer.json: normalizer.precompiled_charsmap] expected base64");
  starts(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}),
         "[tokenizer.json: normalizer.precompiled_charsmap] expected the size of a trie and the trie");
  starts(with("/pre_tokenizer", {{"type", "Nope"}}), "[tokenizer.json: pre_tokenizer.type]");
  starts(with("/pre_tokenizer", 7), "[tokenizer.json: pre_tokenizer] expected an object");
  starts(with("/decoder/type", "CTC"), "[tokenizer.json: decoder.type]");
  starts(with("/post_processor/special_tokens/<s>/ids", {99}),
         "[tokenizer.json: post_processor.special_tokens.<s>.ids[0]] expected an integer from 0 to 4, got 99");
  starts(with("/added_tokens/0/id", -4), "[tokenizer.json: added_tokens[0].id] expected an integer from 0");
  starts(with("/added_tokens/1", {{"id", 4}, {"content", "<t>"}}),
         "[tokenizer.json: added_tokens[1].id] expected an id that");
  starts(with("/added_tokens/1", {{"id", 5}, {"content", "<s>"}}), "[tokenizer.json: added_tokens[1].content]");
  starts(load_error(good, "{"), "[tokenizer_config.json] expected JSON");
  starts(load_error(good, R"({"eos_token": 5})"), "[tokenizer_config.json: eos_token] expected a string, got 5");
}

TEST_CASE("an unknown word without an unknown token is an error of the text, not a crash") {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<unk>"}, "pre_tokenizer": {"type": "WhitespaceSplit"}})",
      "", "");
  CHECK(tokenizer.encode(" a  a ", true) == std::vector<int32_t>{0, 0});
  CHECK_THROWS_AS((void)tokenizer.encode("a b", true), InputError);
}
