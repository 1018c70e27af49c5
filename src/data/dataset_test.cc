#include "data/dataset.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/row_file.h"
#include "data/rows/row_builder.h"
#include "data/rows/token_spans.h"
#include "tests/support/dataset_case.h"

namespace spillway::data {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

TEST_CASE("a prompt whose last token joins the completion's first is counted, and the joined token is learned") {
  const DataFolder folder;
  const fs::path path = folder.write("t.jsonl", R"({"prompt": "t", "completion": "he"}
{"prompt": "th", "completion": "e"}
)");
  DatasetConfig config;
  config.path = path.string();
  Dataset loaded = load_datasets(std::span(&config, 1), {}, dataset_tokenizer());
  CHECK(loaded.summary.joined_prompts == 1);
  REQUIRE(loaded.rows.size() == 2);
  const auto ids = loaded.rows.ids(loaded.rows.row(0));
  CHECK(std::ranges::equal(ids, loaded.rows.ids(loaded.rows.row(1))));
  CHECK(dataset_tokenizer().id_to_token(ids[1]) == "th");
  CHECK(loaded.rows.labels(loaded.rows.row(0))[1] == ids[1]);
  CHECK(loaded.rows.labels(loaded.rows.row(1))[1] == kIgnoredLabel);
}

TEST_CASE("copies of rows that a weight asks for are no duplicates, and are dropped with their row") {
  const DataFolder folder;
  DatasetConfig config = rows_dataset(folder.write("t.jsonl", R"({"input_ids": [5, 6]}
{"input_ids": [7, 8]}
{"input_ids": [5, 6]}
)"),
                                      "");
  config.weight = 2;
  RowOptions options;
  options.deduplicate = true;
  const Dataset loaded = load_datasets(std::span(&config, 1), options, dataset_tokenizer());
  CHECK(loaded.summary.rows == 4);
  CHECK(loaded.summary.dropped.duplicate == 2);
  std::vector<int32_t> first_ids;
  for (const Row& row : rows_of(loaded.rows)) first_ids.push_back(row.input_ids[0]);
  CHECK(first_ids == std::vector<int32_t>{5, 5, 7, 7});
}

TEST_CASE("rows are kept, cut and dropped by the length rules, and counted") {
  const DataFolder folder;
  const fs::path path =
      folder.write("t.jsonl", R"({"input_ids": [5, 6, 7, 8], "labels": [-100, 6, 7, 8], "attention_mask": [1, 1, 1, 1]}
{"input_ids": [5]}
{"input_ids": []}
{"input_ids": [5, 6, 7, 8, 9, 10]}
{"input_ids": [5, 6, 7], "labels": [5, -100, -100]}
{"input_ids": [5, 6, 7, 2], "labels": [5, 6, 7, -100], "attention_mask": [1, 1, 1, 0]}
{"input_ids": [5, 6, 7]}
)");
  const DatasetConfig config = rows_dataset(path, "");
  RowOptions options;
  options.sequence_len = 4;
  options.deduplicate = true;
  Dataset loaded = load_datasets(std::span(&config, 1), options, dataset_tokenizer());
  CHECK(
      to_json(loaded.summary).dump() ==
      R"({"rows_read":7,"truncated":0,"rows":2,"tokens":7,"tokens_cut":0,"tokens_too_long":6,)"
      R"("left_out":{"rows":0,"system":0,"developer":0,"user":0,"assistant":0,"tool":0,"other":0,"thoughts":0,)"
      R"("tool_calls":0,"media":0,"tools":0},"joined_prompts":0,"answers":[{"rows":1,"with_end":0}],"ends":[],"lengths":)"
      R"({"sequence_len":4,"bins":[{"from":0,"to":0,"rows":1,"longer":false},{"from":1,"to":1,"rows":1,"longer":false},)"
      R"({"from":2,"to":3,"rows":3,"longer":false},{"from":4,"to":4,"rows":1,"longer":false},)"
      R"({"from":5,"to":7,"rows":1,"longer":true}]},"dropped":{"empty":1,"too_short":1,"too_long":1,"no_targets":1,"duplicate":1}})");
  REQUIRE(loaded.rows.size() == 2);
  CHECK(rows_of(loaded.rows)[1].input_ids == std::vector<int32_t>{5, 6, 7});
  CHECK(rows_of(loaded.rows)[1].labels == std::vector<int32_t>{5, 6, 7});

  options.deduplicate = false;
  options.excess_length_strategy = ExcessLength::kTruncate;
  loaded = load_datasets(std::span(&config, 1), options, dataset_tokenizer());
  CHECK(loaded.summary.truncated == 1);
  CHECK(loaded.summary.tokens_cut == 2);
  CHECK(loaded.summary.tokens_too_long == 0);
  CHECK(loaded.summary.lengths.rows_over() == 1);
  CHECK(rows_of(loaded.rows)[1].input_ids == std::vector<int32_t>{5, 6, 7, 8});
  options.excess_length_strategy = ExcessLength::kRaise;
  CHECK(dataset_error(config, options).find("t.jsonl:4] expected a row of at most 4 tokens, got 6") !=
        std::string::npos);
  options.excess_length_strategy = ExcessLength::kDrop;
  options.length_rules = LengthRules::kTrl;
  options.truncation_mode = TruncationMode::kKeepEnd;
  loaded = load_datasets(std::span(&config, 1), options, dataset_tokenizer());
  CHECK(rows_of(loaded.rows)[1].input_ids == std::vector<int32_t>{7, 8, 9, 10});
}

TEST_CASE("what is wrong with a dataset is said with its place") {
  const DataFolder folder;
  const fs::path alpaca = folder.write("a.jsonl", "{\"prompt\": \"x\", \"output\": 5}\n");
  CHECK(dataset_error(rows_dataset(alpaca, "alpaca"))
            .find("a.jsonl:1] expected a field 'instruction', got 'prompt', 'output'; set field_instruction to the one "
                  "that "
                  "holds it, or type to what the rows are") != std::string::npos);
  DatasetConfig renamed = rows_dataset(alpaca, "alpaca");
  renamed.field_instruction = "prompt";
  CHECK(dataset_error(renamed).find("expected text in 'output', got number") != std::string::npos);
  CHECK(dataset_error(rows_dataset(alpaca, "nosuch")).find("got 'nosuch'") != std::string::npos);
  CHECK(dataset_error(rows_dataset(folder.path() / "missing.jsonl", "alpaca")).find("no such path") !=
        std::string::npos);
  CHECK(dataset_error(rows_dataset(folder.write("x.bin", ""), "alpaca")).find("expected a .jsonl, .json") !=
        std::string::npos);
  CHECK(dataset_error(rows_dataset(folder.write("e.jsonl", ""), "alpaca")).find("expected at least one row") !=
        std::string::npos);
  CHECK(dataset_error(rows_dataset(folder.write("t.jsonl", "{\"input_ids\": [1, 99999]}"), ""))
            .find("got 99999 at index 1") != std::string::npos);
  const fs::path huge =
      folder.write("huge.jsonl", "{\"input_ids\": [1, 2], \"labels\": [1, 18446744073709551516]}");  // 2^64 - 100
  CHECK(dataset_error(rows_dataset(huge, "")).find("got 18446744073709551516 at index 1") != std::string::npos);
  CHECK(dataset_error(rows_dataset(folder.write("u.jsonl", "{\"input_ids\": [1, \"a\"]}"), ""))
            .find("got string at index 1") != std::string::npos);
  CHECK(dataset_error(rows_dataset(folder.write("v.jsonl", "{\"input_ids\": [1, 2], \"labels\": [1]}"), ""))
            .find("as long as input_ids (2), got 1") != std::string::npos);
  const fs::path chat = folder.write("c.jsonl", "{\"messages\": [{\"from\": \"human\", \"value\": \"x\"}]}");
  CHECK(dataset_error(rows_dataset(chat, "chat_template")).find("set message_property_mappings") != std::string::npos);
  RowOptions options;
  options.chat_template = "chatml";
  const fs::path empty = folder.write("n.jsonl", R"({"messages": [{"role": "user", "content": "x"},
    {"role": "assistant", "content": null}]})");
  CHECK(dataset_error(rows_dataset(empty, "chat_template"), options)
            .find("n.jsonl:1] expected text as the content of message 2, got null or nothing; correct the row") !=
        std::string::npos);
}

TEST_CASE("what a template says against a row is said once, with the template's line") {
  const DataFolder folder;
  RowOptions options;
  const auto error_with = [&](const char* chat_template) {
    options.chat_template_jinja = chat_template;
    const fs::path rows = folder.write("r.jsonl", R"({"messages": [{"role": "user", "content": "x"}]})");
    return dataset_error(rows_dataset(rows, "chat_template"), options);
  };
  const std::string raised = error_with("\n{{ raise_exception('roles must alternate') }}");
  CAPTURE(raised);
  CHECK(raised.find("r.jsonl:1] expected a conversation that the template takes, got 'roles must alternate' (chat "
                    "template jinja, line 2); correct the row or choose another chat_template") != std::string::npos);
  CHECK(raised.find("expected") == raised.rfind("expected"));
  const std::string unknown = error_with("{{ messages[0].a.b }}");
  CAPTURE(unknown);
  CHECK(unknown.find("got 'dict object' has no attribute 'a' (chat template jinja, line 1); ") != std::string::npos);
}

TEST_CASE("JSON text in a field that is nested without end is refused") {
  const DataFolder folder;
  const std::string deep = std::string(400'000, '[') + std::string(400'000, ']');
  const Json message = {{"role", "user"}, {"content", "x"}};
  Json calling = message, detailed = message;
  calling["tool_calls"] = {{{"function", {{"name", "f"}, {"arguments", deep}}}}};
  detailed["detail"] = deep;
  for (const Json& row : {Json{{"messages", {message}}, {"tools", deep}}, Json{{"messages", {calling}}},
                          Json{{"messages", {detailed}}}}) {
    DatasetConfig config = rows_dataset(folder.write("deep.jsonl", row.dump() + "\n"), "chat_template");
    config.message_field_training_detail = "detail";
    RowOptions options;
    options.chat_template = "chatml";
    CHECK(dataset_error(config, options).find("deep.jsonl:1] expected at most 200 nested levels") != std::string::npos);
  }
}

TEST_CASE("files of a folder are found by split, and CSV rows may be tokenised") {
  const DataFolder folder;
  folder.write("train-1.csv", "input_ids,labels\n\"[5, 6, 7]\",\"[-100, 6, 7]\"\n");
  folder.write("train-0.csv", "input_ids,labels\n\"[8, 9]\",\n");
  folder.write("test.csv", "input_ids\n\"[1, 2]\"\n");
  DatasetConfig config = rows_dataset(folder.path(), "");
  config.split = "train";
  const Dataset loaded = load_datasets(std::span(&config, 1), {}, dataset_tokenizer());
  REQUIRE(loaded.rows.size() == 2);
  CHECK(rows_of(loaded.rows)[0].input_ids == std::vector<int32_t>{8, 9});
  CHECK(rows_of(loaded.rows)[1].labels == std::vector<int32_t>{-100, 6, 7});
}

TEST_CASE("written lines have ids, labels, positions and lengths of every sequence") {
  const DataFolder folder;
  const RowTable rows(std::vector<Row>{{{5, 6}, {5, 6}}, {{7, 8, 9}, {-100, 8, -100}}});
  Piece goes_on = rows.row(0);
  goes_on.continues = true;
  Lines lines;
  lines.pieces = {rows.row(1), rows.row(0)};
  lines.end_line();
  lines.pieces.insert(lines.pieces.end(), {rows.row(0), goes_on});
  lines.end_line();
  write_lines(folder.path() / "train.jsonl", rows, lines);
  std::ifstream file(folder.path() / "train.jsonl");
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(
      line ==
      R"({"input_ids": [7, 8, 9, 5, 6], "labels": [-100, 8, -100, -100, 6], "position_ids": [0, 1, 2, 0, 1], "seq_lengths": [3, 2]})");
  REQUIRE(std::getline(file, line));
  CHECK(line ==
        R"({"input_ids": [5, 6, 5, 6], "labels": [-100, 6, 5, 6], "position_ids": [0, 1, 2, 3], "seq_lengths": [4]})");
}

TEST_CASE("rows come in the order of the file whatever the number of threads, and the first error is told") {
  const DataFolder folder;
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += "{\"instruction\": \"Repeat " + std::to_string(i) + "\", \"output\": \"" + std::string(i % 50, 'x') + " " +
             std::to_string(i) + "\"}\n";
  const DatasetConfig good = rows_dataset(folder.write("good.jsonl", lines), "alpaca");
  const Dataset one = load_datasets(std::span(&good, 1), {}, dataset_tokenizer(), {.threads = 1});
  int64_t told = 0;
  const Dataset many = load_datasets(std::span(&good, 1), {}, dataset_tokenizer(),
                                     {.threads = 4, .progress = [&](int64_t records) { told = records; }});
  CHECK(told == 3000);
  const std::vector<Row> expected = rows_of(one.rows), got = rows_of(many.rows);
  REQUIRE(got.size() == 3000);
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].input_ids == expected[i].input_ids);

  // A record that is no JSON stands behind one that lacks a field.
  const DatasetConfig bad =
      rows_dataset(folder.write("bad.jsonl", lines + "{\"output\": \"x\"}\n" + lines + "{"), "alpaca");
  for (const int threads : {1, 4}) {
    CHECK_THROWS_WITH_AS((void)load_datasets(std::span(&bad, 1), {}, dataset_tokenizer(), {.threads = threads}),
                         doctest::Contains("bad.jsonl:3001] expected a field 'instruction'"), InputError);
  }
}

TEST_CASE("the place of each token in a text is known, for characters of several tokens too") {
  const std::string text = "<|im_start|>user\n日 é🙂 x<|im_end|>";
  const std::vector<int32_t> ids = dataset_tokenizer().encode(text, false);
  const auto spans = token_spans(dataset_tokenizer(), text, ids);
  REQUIRE(spans);
  CHECK(spans->front() == std::pair<int64_t, int64_t>{0, 12});
  CHECK(spans->back().second == static_cast<int64_t>(text.size()));
  const size_t sun = text.find("日");
  const auto mask =
      mask_of_ranges(dataset_tokenizer(), text, ids, std::vector<std::pair<int64_t, int64_t>>{{sun, sun + 3}});
  REQUIRE(mask);
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool inside =
        (*spans)[i].first >= static_cast<int64_t>(sun) && (*spans)[i].second <= static_cast<int64_t>(sun) + 3;
    CHECK((*mask)[i] == (inside ? 1 : 0));
  }
}

TEST_CASE("ids may be any that the embedding has rows for, also where the tokenizer has no token") {
  const auto build = [](int64_t vocabulary, const Json& row) {
    RowOptions options;
    options.vocabulary = vocabulary;
    std::vector<Row> rows;
    make_row_builder(DatasetConfig(), options, dataset_tokenizer())->build({row, "f:1"}, rows);
    return rows.at(0);
  };
  const int64_t tokens = dataset_tokenizer().vocabulary_size();
  const Json between = {{"input_ids", {1, tokens + 3}}, {"labels", {-100, tokens + 3}}};
  CHECK(build(tokens + 4, between).input_ids == std::vector<int32_t>{1, static_cast<int32_t>(tokens + 3)});
  CHECK_THROWS_WITH_AS((void)build(tokens + 3, between), doctest::Contains("got 423 at index 1"), InputError);
  CHECK_THROWS_WITH_AS((void)build(0, between), doctest::Contains("expected numbers from 0 to 419"), InputError);
}

TEST_CASE("assistant_only_loss is for conversations, as in TRL") {
  RowOptions options;
  options.assistant_only_loss = true;
  const auto error = [&](const Json& row) -> std::string {
    try {
      std::vector<Row> rows;
      make_row_builder(DatasetConfig(), options, dataset_tokenizer())->build({row, "f:1"}, rows);
    } catch (const InputError& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  constexpr std::string_view kExpected = "[f:1] expected a conversation in 'messages' for assistant_only_loss, got ";
  CHECK(error({{"text", "hello"}}) == std::string(kExpected) + "text; remove assistant_only_loss");
  CHECK(error({{"prompt", "a"}, {"completion", "b"}}).starts_with(kExpected));
  CHECK(error({{"input_ids", {1, 2}}}) == std::string(kExpected) + "token ids; remove assistant_only_loss");
}

TEST_CASE("a colon does not stand for a dot in a type") {
  const auto error = [](const std::string& type) {
    try {
      check_text_type(rows_dataset("x", type), "datasets.0.type");
    } catch (const InputError& wrong) {
      return std::string(wrong.what());
    }
    return std::string("no error");
  };
  CHECK(error("alpaca_chat:load_qa").ends_with("got 'alpaca_chat:load_qa'; did you mean alpaca_chat.load_qa?"));
  CHECK(error("alpaca:load_qa").find("got 'alpaca:load_qa'; ") != std::string::npos);
  CHECK(error("metharme:chat").find("got 'metharme:chat'") != std::string::npos);
  for (const char* type :
       {"alpaca:chat", "alpaca_chat.load_qa", "alpaca_chat", "concisechoice:chat", "summarizetldr:chat"})
    CHECK(error(type) == "no error");
}

}  // namespace spillway::data
