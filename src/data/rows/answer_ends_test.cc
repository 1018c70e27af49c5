#include "data/rows/answer_ends.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "base/temporary_folder.h"
#include "data/dataset.h"
#include "tests/support/dataset_case.h"

using namespace spillway;
using namespace spillway::data;

namespace {

using Json = nlohmann::ordered_json;

// Reads the masks of axolotl and TRL for two conversations with each family's template
// (tools/make_turn_end_goldens.py).
std::vector<Json> families() {
  std::ifstream file(kGoldenRows / "turn_ends.json");
  return Json::parse(file).get<std::vector<Json>>();
}

// The tiny tokenizer with the family's tokens, and its ends in generation_config.json.
text::Tokenizer tokenizer_of(const Json& family) {
  const TemporaryFolder folder;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(kGoldenRows / name, folder.path() / name);
  std::ofstream(folder.path() / "generation_config.json") << Json{{"eos_token_id", family["ends"]}}.dump();
  text::SpecialTokenNames names;
  names.eos_token = family["eos_token"];
  names.additional_special_tokens = family["tokens"].get<std::vector<std::string>>();
  return text::Tokenizer::load(folder.path(), names);
}

using Eots = std::optional<std::vector<std::string>>;

Row chat_row(const Json& family, const Json& messages, const Eots& eot_tokens, const char* type = "chat_template") {
  DatasetConfig config;
  if (type != nullptr) config.type = {true, type};
  config.chat_template_jinja = family[type != nullptr ? "template" : "trl_template"];
  RowOptions options;
  options.eot_tokens = eot_tokens;
  options.assistant_only_loss = type == nullptr;
  const text::Tokenizer tokenizer = tokenizer_of(family);
  std::vector<Row> rows;
  make_row_builder(config, options, tokenizer)->build({{{"messages", messages}}, "golden:1"}, rows);
  return rows.at(0);
}

// Targets between brackets.
std::string shown(const Json& family, const std::vector<int32_t>& ids, const std::vector<int32_t>& labels) {
  const text::Tokenizer tokenizer = tokenizer_of(family);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string token = tokenizer.decode(std::span(&ids[i], 1), false);
    text += labels[i] == kIgnoredLabel ? token : "[" + token + "]";
  }
  return text;
}

std::string shown(const Json& family, const Row& row) { return shown(family, row.input_ids, row.labels); }

const Json& family_named(const std::vector<Json>& all, std::string_view name) {
  for (const Json& one : all) {
    if (one["name"] == name) return one;
  }
  throw std::runtime_error("no such family");
}

Eots eots_of(const Json& family) { return family["eot_tokens"].get<std::vector<std::string>>(); }

}  // namespace

TEST_CASE("the end of an answer is a target by itself, as axolotl has it where eot_tokens names it") {
  int compared = 0;
  for (const Json& family : families()) {
    for (size_t i = 0; i < family["rows"].size(); ++i) {
      CAPTURE(family["name"].dump());
      CAPTURE(i);
      // axolotl mistakes the place of a turn whose thoughts the template drops, and leaves out the space that Llama 2's
      // template writes before the end.
      if (family["name"] == "Qwen3" && i > 0) continue;
      if (family["name"] == "Llama 2") continue;
      const Row row = chat_row(family, family["rows"][i], {});
      CHECK(Json(row.input_ids) == family["input_ids"][i]);
      CHECK(shown(family, row) ==
            shown(family, row.input_ids, family["axolotl_with_eot_tokens"][i].get<std::vector<int32_t>>()));
      ++compared;
    }
  }
  CHECK(compared == 37);
}

TEST_CASE("with eot_tokens masks are axolotl's, and without any eot_tokens as axolotl has them without the key") {
  for (const Json& family : families()) {
    for (size_t i = 0; i < family["rows"].size(); ++i) {
      if (family["name"] == "Qwen3" && i > 0) continue;
      CAPTURE(family["name"].dump());
      CAPTURE(i);
      CHECK(Json(chat_row(family, family["rows"][i], eots_of(family)).labels) == family["axolotl_with_eot_tokens"][i]);
      CHECK(Json(chat_row(family, family["rows"][i], std::vector<std::string>()).labels) == family["axolotl"][i]);
    }
  }
}

TEST_CASE("white space that the template writes before an answer is a target where the tokenizer joins it with words") {
  // A vocabulary of bytes, in which a space joins the bracket that axolotl's stand-in begins with, and "yes".
  Json vocabulary = Json::object();
  for (int byte = 33; byte < 127; ++byte) vocabulary[std::string(1, static_cast<char>(byte))] = vocabulary.size();
  const std::string space = "\u0120";
  for (const std::string& token : {space, space + "[", space + "y"}) vocabulary[token] = vocabulary.size();
  const Json tokenizer = {
      {"added_tokens", Json::array({{{"id", vocabulary.size()}, {"content", "</s>"}, {"special", true}}})},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {space + " [", space + " y"}}}}};
  const auto read = text::Tokenizer::from_json(tokenizer.dump(), R"({"eos_token": "</s>"})", "");
  DatasetConfig config;
  config.type = {true, "chat_template"};
  config.chat_template_jinja =
      "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}</s>"
      "{% endif %}{% endfor %}";
  const auto learned = [&](const std::string& answer) {
    const Json messages =
        Json::array({{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", answer}}});
    std::vector<Row> rows;
    make_row_builder(config, {}, read)->build({{{"messages", messages}}, "row:1"}, rows);
    std::vector<int32_t> ids;
    for (const int32_t label : rows.at(0).labels)
      if (label != kIgnoredLabel) ids.push_back(label);
    return read.decode(ids, false);
  };
  CHECK(learned("42") == " 42</s>");  // the space is a token of its own
  CHECK(learned("yes") == " yes</s>");
  CHECK(learned(" 4") == "  4</s>");
}

TEST_CASE("assistant_only_loss has TRL's masks where the template marks the end of an answer") {
  int compared = 0;
  for (const Json& family : families()) {
    if (!family.contains("trl_template")) continue;
    for (size_t i = 0; i < family["rows"].size(); ++i) {
      CAPTURE(family["name"].dump());
      const Row row = chat_row(family, family["rows"][i], {}, nullptr);
      CHECK(Json(row.input_ids) == family["trl_input_ids"][i]);
      Json labels = row.labels;
      CHECK(labels == family["trl_assistant_only"][i]);
      CHECK(row.ends.has_answer);
      ++compared;
    }
  }
  CHECK(compared >= 18);
}

TEST_CASE("a token behind the block that a template marks as generated is learned, unless eot_tokens is empty") {
  const std::vector<Json> all = families();
  Json family = family_named(all, "chatml on a base model");
  family["trl_template"] =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}";
  const Row row = chat_row(family, family["rows"][0], {}, nullptr);
  CHECK(shown(family, row).find("<|im_start|>assistant[") == std::string::npos);
  CHECK(shown(family, row).ends_with("[<|im_end|>]\n"));
  CHECK(row.ends.ids.size() == 1);
  CHECK(shown(family, chat_row(family, family["rows"][0], std::vector<std::string>(), nullptr))
            .ends_with("]<|im_end|>\n"));
}

TEST_CASE("the space between an answer and its end is learned: the model has to write it before it can end") {
  const std::vector<Json> all = families();
  const Json& family = family_named(all, "Llama 2");
  const std::string text = shown(family, chat_row(family, family["rows"][1], {}));
  CHECK(text.ends_with("[ ][</s>]"));
  CHECK(text.find("[ ][</s>]<s>") != std::string::npos);
}

TEST_CASE("of an earlier turn whose thoughts are dropped the answer and its end are learned") {
  const std::vector<Json> all = families();
  const Json& family = family_named(all, "Qwen3");
  const std::string text = shown(family, chat_row(family, family["rows"][1], {}));
  CHECK(text.find("user\n") != std::string::npos);
  CHECK(text.find("[<|im_end|>]\n<|im_start|>user\n") != std::string::npos);
  CHECK(text.ends_with("[<|im_end|>]\n"));
}

TEST_CASE("what begins the next turn ends no answer, unless generation ends there") {
  const std::vector<Json> all = families();
  Json family = family_named(all, "GLM-4");
  const Json turns = family["rows"][1], one = family["rows"][0];
  CHECK(shown(family, chat_row(family, turns, {})).find("[<|user|>]") != std::string::npos);
  CHECK(chat_row(family, one, {}).ends.ids.empty());  // nothing stands behind the last answer
  CHECK(chat_row(family, one, {}).ends.has_answer);
  Json others = family;
  others["ends"] = Json::array({family["ends"][0]});  // the EOS alone
  CHECK(shown(others, chat_row(others, turns, {})).find("[<|user|>]") == std::string::npos);
  CHECK(chat_row(others, turns, {}).ends.ids.empty());
}

TEST_CASE("a token that closes turns in the middle of a conversation, and not its last, is no end") {
  // As gpt-oss has it: <|end|> closes a message, <|return|> what was said.
  Json family = {{"name", "channels"},
                 {"template",
                  "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}{% if loop.last %}<|return|>"
                  "{% else %}<|end|>{% endif %}{% endfor %}"},
                 {"eos_token", "<|return|>"},
                 {"tokens", {"<|start|>", "<|message|>", "<|end|>"}},
                 {"ends", Json::array()}};
  const Json turns = family_named(families(), "GLM-4")["rows"][1];
  const Row row = chat_row(family, turns, {});
  CHECK(shown(family, row).find("[<|end|>]") == std::string::npos);
  CHECK(shown(family, row).ends_with("[<|return|>]"));
  CHECK(row.ends.ids.size() == 1);
}

TEST_CASE("rows of other types say where their answers end") {
  const text::Tokenizer& tokenizer = dataset_tokenizer();
  const auto row_of = [&](const char* type, const Json& fields, Objective objective = Objective::kText) {
    DatasetConfig config;
    if (type != nullptr) config.type = {true, type};
    RowOptions options;
    options.objective = objective;
    std::vector<Row> rows;
    make_row_builder(config, options, tokenizer)->build({fields, "f:1"}, rows);
    return rows.at(0);
  };
  const std::vector<int32_t> eos = {*tokenizer.eos_id()}, other = {*tokenizer.token_to_id("</s>")};
  CHECK(row_of("alpaca", {{"instruction", "q"}, {"output", "a"}}).ends.ids == eos);
  CHECK(row_of(nullptr, {{"prompt", "q"}, {"completion", "a"}}).ends.ids == eos);
  CHECK_FALSE(row_of(nullptr, {{"text", "q"}}).ends.has_answer);
  CHECK_FALSE(row_of("completion", {{"text", "q"}}).ends.has_answer);
  const auto segments = [&](const char* answer) {
    return row_of("input_output",
                  {{"segments", {{{"label", false}, {"text", "q"}}, {{"label", true}, {"text", answer}}}}});
  };
  CHECK(segments("a</s>").ends.ids == other);
  CHECK(segments("a").ends.ids.empty());
  CHECK(segments("a").ends.has_answer);
  CHECK(row_of(nullptr, {{"prompt", "q"}, {"chosen", "a"}, {"rejected", "b"}}, Objective::kPairs).ends.ids == eos);
}

TEST_CASE("a row that lost its end when it was cut teaches none") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "rows.jsonl") << R"({"prompt": "q", "completion": "one two three four five six seven"})"
                                              << "\n"
                                              << R"({"prompt": "q", "completion": "one two three four five six eight"})"
                                              << "\n";
  const text::Tokenizer& tokenizer = dataset_tokenizer();
  DatasetConfig config;
  config.path = (folder.path() / "rows.jsonl").string();
  RowOptions options;
  options.length_rules = LengthRules::kTrl;
  options.sequence_len = 8;
  const auto summary = [&] { return load_datasets({&config, 1}, options, tokenizer).summary; };
  CHECK(summary().answers == std::vector{DatasetSummary::Answers{.rows = 2}});
  CHECK(summary().ends.empty());
  options.sequence_len = 200;
  CHECK(summary().answers == std::vector{DatasetSummary::Answers{.rows = 2, .with_end = 2}});
  CHECK(summary_from_json(to_json(summary())).answers == summary().answers);
  CHECK(summary().ends == std::set<int32_t>{*tokenizer.eos_id()});
  CHECK(summary_from_json(to_json(summary())).ends == summary().ends);
}
