// Nulls that Arrow made are not content: the golden files are what the datasets library writes of rows with tools, and
// what transformers renders of them after TRL's remove_none_values (tools/make_null_goldens.py).
#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "data/dataset.h"
#include "data/rows/row_builder.h"
#include "tests/support/dataset_case.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kNullGolden = SPILLWAY_SOURCE_DIR "/tests/golden/rows/nulls";

Json golden_texts() {
  std::ifstream file(kNullGolden / "texts.json");
  return Json::parse(file);
}

std::vector<std::string> texts_of(const fs::path& path, bool typed) {
  DatasetConfig config;
  config.path = path.string();
  if (typed) config.type = {true, "chat_template"};
  RowOptions options;
  options.sequence_len = 4096;
  options.chat_template = "jinja";
  options.chat_template_jinja = golden_texts()["template"];
  const Dataset read = load_datasets(std::span(&config, 1), options, dataset_tokenizer());
  std::vector<std::string> texts;
  for (int64_t i = 0; i < read.rows.size(); ++i)
    texts.push_back(dataset_tokenizer().decode(read.rows.ids(read.rows.row(i)), false));
  return texts;
}

constexpr bool kReadsNullsOfArrow = SPILLWAY_HAS_ARROW != 0;

std::vector<Row> null_rows(const Json& fields, DatasetConfig config = {}) {
  RowOptions options;
  options.chat_template = "chatml";
  std::vector<Row> rows;
  make_row_builder(config, options, dataset_tokenizer())->build({fields, "f:1"}, rows);
  return rows;
}

}  // namespace

TEST_CASE("tools and calls without the nulls that datasets wrote render as in transformers, from any file") {
  const auto expected = golden_texts()["texts"]["tools"].get<std::vector<std::string>>();
  for (const bool typed : {false, true}) {
    CHECK(texts_of(kNullGolden / "tools.jsonl", typed) == expected);
    if (!kReadsNullsOfArrow) continue;
    for (const char* name : {"tools.parquet", "tools.arrow", "json.parquet"}) {
      CAPTURE(name);
      CHECK(texts_of(kNullGolden / name, typed) == expected);
    }
  }
}

TEST_CASE("a part of text does not become an image by a null that stands beside it") {
  const auto expected = golden_texts()["texts"]["parts"].get<std::vector<std::string>>();
  std::ifstream file(kNullGolden / "parts.jsonl");
  std::string line;
  std::getline(file, line);
  RowOptions options;
  options.chat_template = "jinja";
  options.chat_template_jinja = golden_texts()["template"];
  std::vector<Row> rows;
  make_row_builder({}, options, dataset_tokenizer())->build({Json::parse(line), "f:1"}, rows);
  CHECK(dataset_tokenizer().decode(rows[0].input_ids, false) == expected[0]);
}

TEST_CASE("nulls in a user's own JSON text, and in lists, stay") {
  Record record;
  CHECK(list_of(record, Json(R"([{"a": null}])"), "x") == Json::parse(R"([{"a": null}])"));
  CHECK(list_of(record, Json::parse(R"([{"a": null, "b": [null, {"c": null, "d": 1}]}, null])"), "x") ==
        Json::parse(R"([{"b": [null, {"d": 1}]}, null])"));
}

TEST_CASE("a column that is null is missing") {
  const Json ids =
      Json::parse(R"({"input_ids": [5, 6, 7], "labels": null, "attention_mask": null, "completion_mask": null})");
  CHECK(null_rows(ids)[0].labels == std::vector<int32_t>{5, 6, 7});
  const char* chat = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  Json table = {
      {"messages", Json::parse(chat)}, {"tools", nullptr}, {"chat_template_kwargs", nullptr}, {"input_ids", nullptr}};
  CHECK(null_rows(table)[0].input_ids == null_rows({{"messages", Json::parse(chat)}})[0].input_ids);
  DatasetConfig choices;
  choices.type = {true, "explainchoice"};
  const Json row = Json::parse(R"({"question": "q", "choices": ["a", "b"], "solution": null, "explanation": "e"})");
  Json without = row;
  without.erase("solution");
  CHECK(null_rows(row, choices)[0].input_ids == null_rows(without, choices)[0].input_ids);
}

}  // namespace spillway::data
