// Rows as axolotl and TRL make them (tools/make_row_goldens.py).
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/rows/preference_rows.h"
#include "data/rows/row_builder.h"
#include "tests/support/dataset_case.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

TrainOnEos train_on_eos(const std::string& word) {
  return word == "all"    ? TrainOnEos::kAll
         : word == "last" ? TrainOnEos::kLast
         : word == "none" ? TrainOnEos::kNone
                          : TrainOnEos::kTurn;
}

DatasetConfig config_of(const Json& json) {
  DatasetConfig config;
  config.type.properties = json.value("properties", std::map<std::string, std::string>());
  config.type.given = json.contains("type") || config.type.is_user_defined();
  config.type.name = json.value("type", "");
  config.chat_template_jinja = json.value("chat_template_jinja", "");
  config.field_messages = json.value("field_messages", "messages");
  config.field_chosen = json.value("field_chosen", "chosen");
  config.field_rejected = json.value("field_rejected", "rejected");
  config.roles = json.value("roles", std::map<std::string, std::vector<std::string>>());
  config.message_property_mappings = json.value("message_property_mappings", std::map<std::string, std::string>());
  config.roles_to_train = json.value("roles_to_train", std::vector<std::string>{"assistant"});
  config.train_on_eos = train_on_eos(json.value("train_on_eos", "turn"));
  if (json.contains("train_on_eot")) config.train_on_eot = train_on_eos(json["train_on_eot"]);
  config.message_field_training = json.value("message_field_training", "");
  config.message_field_training_detail = json.value("message_field_training_detail", "");
  config.split_thinking = json.value("split_thinking", false);
  config.drop_system_message = json.value("drop_system_message", false);
  return config;
}

RowOptions options_of(const Json& json) {
  RowOptions options;
  options.sequence_len = json.value("sequence_len", int64_t{2048});
  options.train_on_inputs = json.value("train_on_inputs", false);
  if (json.contains("eot_tokens")) options.eot_tokens = json["eot_tokens"].get<std::vector<std::string>>();
  options.assistant_only_loss = json.value("assistant_only_loss", false);
  if (json.contains("completion_only_loss")) options.completion_only_loss = json["completion_only_loss"].get<bool>();
  if (json.contains("length_rules")) options.length_rules = LengthRules::kTrl;
  if (json.contains("chat_template_kwargs")) options.chat_template_kwargs.json = json["chat_template_kwargs"].dump();
  return options;
}

// Returns a row as the golden file writes it; the first label is never a target.
Json as_json(const Row& row) {
  Json labels = row.labels;
  if (!labels.empty()) labels[0] = kIgnoredLabel;
  if (labels.empty()) labels.push_back(kIgnoredLabel);
  return {row.input_ids, labels};
}

}  // namespace

TEST_CASE("rows have the ids and labels that axolotl gives them") {
  std::ifstream file(kGoldenRows / "rows.json");
  int compared = 0;
  for (const Json& c : Json::parse(file)) {
    if (!c.contains("made")) continue;
    const auto builder = make_row_builder(config_of(c["config"]), options_of(c["options"]), dataset_tokenizer());
    for (size_t i = 0; i < c["rows"].size(); ++i) {
      CAPTURE(c["name"].dump());
      CAPTURE(c["rows"][i].dump());
      std::vector<Row> rows;
      builder->build({c["rows"][i], "golden:1"}, rows);
      Json made = Json::array();
      for (const Row& row : rows) {
        if (!row.input_ids.empty()) made.push_back(as_json(row));
      }
      CHECK(made == c["made"][i]);
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("preference rows have the ids that axolotl and TRL give them") {
  std::ifstream file(kGoldenRows / "preferences.json");
  const std::map<std::string, Objective> objectives = {{"pairs", Objective::kPairs},
                                                       {"unpaired", Objective::kUnpaired},
                                                       {"orpo", Objective::kOrpo},
                                                       {"reward", Objective::kReward}};
  int compared = 0;
  for (const Json& c : Json::parse(file)) {
    CAPTURE(c["name"].dump());
    RowOptions options;
    options.objective = objectives.at(c["objective"]);
    const PreferenceBuilder builder(config_of(c["config"]), options, dataset_tokenizer());
    std::vector<PreferenceRow> rows;
    for (const Json& row : c["rows"]) builder.build({row, "golden:1"}, rows);
    Json made = Json::array();
    for (const PreferenceRow& row : rows) {
      const auto whole = [&](size_t i) {
        std::vector<int32_t> ids = row.prompt_ids;
        ids.insert(ids.end(), row.completions[i].begin(), row.completions[i].end());
        return ids;
      };
      switch (options.objective) {
        case Objective::kPairs:
          made.push_back({{"prompt_ids", row.prompt_ids},
                          {"chosen_ids", row.completions[0]},
                          {"rejected_ids", row.completions[1]}});
          break;
        case Objective::kUnpaired:
          made.push_back(
              {{"prompt_ids", row.prompt_ids}, {"completion_ids", row.completions[0]}, {"label", row.label}});
          break;
        case Objective::kOrpo:
          made.push_back({{"chosen", whole(0)}, {"rejected", whole(1)}});
          break;
        default:
          made.push_back({{"chosen_ids", whole(0)}, {"rejected_ids", whole(1)}});
      }
    }
    CHECK(made == c["made"]);
    ++compared;
  }
  CHECK(compared > 50);
}

TEST_CASE("what is wrong with a preference row is said with its place") {
  const auto error = [](const Json& config, Objective objective, const Json& row) -> std::string {
    RowOptions options;
    options.objective = objective;
    try {
      const PreferenceBuilder builder(config_of(config), options, dataset_tokenizer());
      std::vector<PreferenceRow> rows;
      builder.build({row, "f:3"}, rows);
    } catch (const InputError& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  const Objective pairs = Objective::kPairs, unpaired = Objective::kUnpaired;
  CHECK(error({{"type", "chatml.intl"}}, pairs, {}).find("got 'chatml.intl'; did you mean chatml.intel?") !=
        std::string::npos);
  CHECK(error({{"type", "chatml.intel"}}, pairs, {{"question", "q"}, {"chosen", "c"}})
            .starts_with("[f:3] expected a field 'rejected'"));
  CHECK(error({{"type", "chatml.ultra"}}, pairs, {{"prompt", "q"}, {"chosen", Json::array({1})}, {"rejected", 1}})
            .starts_with("[f:3] expected at least 2 messages in 'chosen', got 1"));
  CHECK(error({{"type", "llama3.argilla"}}, unpaired, {{"instruction", "q"}, {"completion", "c"}, {"label", "maybe"}})
            .starts_with("[f:3] expected true or false in 'label'"));
  CHECK(error({{"type", "chat_template.default"}}, pairs,
              {{"messages", {{{"role", "nobody"}, {"content", "x"}}}}, {"chosen", "c"}, {"rejected", "r"}})
            .starts_with("[f:3] expected a role that `roles` maps, got 'nobody'"));
  CHECK(
      error({{"properties", {{"prompt_format", "{promt}"}}}}, pairs, {}).starts_with("[type.prompt_format] expected"));
  CHECK(error(Json::object(), pairs, {{"prompt", "p"}, {"completion", "c"}, {"label", true}}).find("set rl: kto") !=
        std::string::npos);
  CHECK(error(Json::object(), unpaired, {{"completion", "c"}, {"label", true}}).find("expected 'prompt' as text") !=
        std::string::npos);
  CHECK(error(Json::object(), pairs, {{"chosen", "c"}, {"rejected", Json::array()}}).find("got one of each") !=
        std::string::npos);
  CHECK(error(Json::object(), pairs, {{"chosen", 5}, {"rejected", "r"}})
            .starts_with("[f:3] expected text in 'chosen', got number"));
}

TEST_CASE("rows without a type have the ids and labels that TRL gives them") {
  std::ifstream file(kGoldenRows / "rows.json");
  const DataFolder folder;
  int compared = 0;
  for (const Json& c : Json::parse(file)) {
    if (!c.contains("all")) continue;
    CAPTURE(c["name"].dump());
    std::string lines;
    for (const Json& row : c["rows"]) lines += row.dump() + "\n";
    DatasetConfig config = config_of(c["config"]);
    config.path = folder.write("rows.jsonl", lines).string();
    const Dataset loaded = load_datasets(std::span(&config, 1), options_of(c["options"]), dataset_tokenizer());
    Json made = Json::array();
    for (const Row& row : rows_of(loaded.rows)) made.push_back(as_json(row));
    CHECK(made == c["all"]);
    ++compared;
  }
  CHECK(compared == 14);
}

}  // namespace spillway::data
