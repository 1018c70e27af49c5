#include "data/preferences.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/prepared/prepared_rows.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// Words are tokens: u, </s>, a to e.
const text::Tokenizer& preference_tokenizer() {
  static const text::Tokenizer words = text::Tokenizer::from_json(
      R"({"model": {"type": "WordLevel", "unk_token": "u",
                    "vocab": {"u": 0, "</s>": 1, "a": 2, "b": 3, "c": 4, "d": 5, "e": 6}},
          "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [{"id": 1, "content": "</s>", "special": true}]})",
      R"({"eos_token": "</s>"})", "test");
  return words;
}

struct Rows : TemporaryFolder {
  explicit Rows(const std::string& lines) {
    config.path = (path() / "rows.jsonl").string();
    std::ofstream(config.path) << lines;
  }
  [[nodiscard]] Preferences load(const RowOptions& options) const {
    const Dataset dataset = load_datasets(std::span(&config, 1), options, preference_tokenizer());
    return {preferences_of(dataset.rows), dataset.summary};
  }
  DatasetConfig config;
};

TEST_CASE("rows that others have, too, are removed") {
  const auto row = [](int32_t id, bool label = true) {
    return PreferenceRow{.prompt_ids = {id}, .completions = {{2}, {3, 4}}, .label = label};
  };
  std::vector<PreferenceRow> rows = {row(5), row(6), row(7), row(6, false)};
  const std::vector<PreferenceRow> others = {row(6), row(9)};
  CHECK(remove_known(others, rows) == 1);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].prompt_ids == std::vector<int32_t>{7});
  CHECK_FALSE(rows[2].label);
}

const char* kPairs = R"({"prompt": "a b ", "chosen": "c", "rejected": "d e"}
{"prompt": "a ", "chosen": "b", "rejected": "c"}
{"prompt": "a ", "chosen": "b", "rejected": "c"}
)";

}  // namespace

TEST_CASE("pairs become unpaired rows with the chosen completions first") {
  const Rows rows(kPairs);
  RowOptions options;
  options.objective = Objective::kUnpaired;
  const Preferences loaded = rows.load(options);
  REQUIRE(loaded.rows.size() == 6);
  CHECK(loaded.summary.rows_read == 3);
  CHECK(loaded.rows[0].label);
  CHECK(loaded.rows[2].completions[0] == std::vector<int32_t>{3, 1});
  CHECK_FALSE(loaded.rows[3].label);
  CHECK(loaded.rows[3].completions[0] == std::vector<int32_t>{5, 6, 1});
}

TEST_CASE("preference rows do not depend on the number of threads, and are kept and mapped as they were made") {
  std::string lines;
  for (int i = 0; i < 2500; ++i) {
    const Json row = {{"prompt", "a b "}, {"chosen", i % 3 == 0 ? "c" : "d e"}, {"rejected", i % 5 == 0 ? "" : "e"}};
    lines += row.dump() + "\n";
  }
  const Rows rows(lines);
  for (const Objective objective : {Objective::kPairs, Objective::kUnpaired, Objective::kReward}) {
    RowOptions options;
    options.objective = objective;
    const auto read = [&](RowSink& sink, int threads) {
      return read_datasets(std::span(&rows.config, 1), options, preference_tokenizer(), {.threads = threads}, sink);
    };
    const Preferences one = rows.load(options);
    const PreparedRows kept =
        prepare_rows(rows.path() / "kept", "these", schema_of(objective), [&](RowSink& sink) { return read(sink, 4); });
    const PreparedRows mapped =
        prepare_rows(rows.path() / "kept", "these", schema_of(objective), [&](RowSink& sink) { return read(sink, 1); });
    CHECK_FALSE(kept.reused);
    CHECK(mapped.reused);
    const std::vector<PreferenceRow> again = preferences_of(mapped.dataset.rows);
    CHECK(one.summary.rows == mapped.dataset.summary.rows);
    REQUIRE(again.size() == one.rows.size());
    for (size_t i = 0; i < again.size(); ++i) {
      CHECK(again[i].prompt_ids == one.rows[i].prompt_ids);
      CHECK(again[i].completions == one.rows[i].completions);
      CHECK(again[i].label == one.rows[i].label);
    }
    std::filesystem::remove_all(rows.path() / "kept");
  }
}

TEST_CASE("preference rows are cut, dropped and counted by the length rules") {
  const Rows rows(kPairs);
  RowOptions options;
  options.objective = Objective::kPairs;
  options.sequence_len = 4;
  options.deduplicate = true;
  Preferences loaded = rows.load(options);  // axolotl's: the first is too long
  CHECK(loaded.summary.dropped.too_long == 1);
  CHECK(loaded.summary.dropped.duplicate == 1);
  REQUIRE(loaded.rows.size() == 1);
  CHECK(count_tokens(loaded.rows) == 6);
  options.length_rules = LengthRules::kTrl;
  loaded = rows.load(options);
  REQUIRE(loaded.rows.size() == 2);
  CHECK(loaded.summary.truncated == 1);
  CHECK(loaded.rows[0].completions[1] == std::vector<int32_t>{5, 6});
  options.objective = Objective::kReward;  // whole conversations are not cut
  loaded = rows.load(options);
  CHECK(loaded.summary.dropped.too_long == 1);
  options.sequence_len = 1;
  CHECK_THROWS_AS((void)rows.load(options), InputError);
}

TEST_CASE("answers and prompts of null are refused, not taken for empty ones") {
  RowOptions options;
  options.objective = Objective::kPairs;
  for (const char* column : {"prompt", "chosen", "rejected"}) {
    Json row = {{"prompt", "a "}, {"chosen", "b"}, {"rejected", "c"}};
    row[column] = nullptr;
    CAPTURE(row.dump());
    CHECK_THROWS_WITH_AS((void)Rows(row.dump() + "\n").load(options),
                         doctest::Contains(fmt::format("expected text or messages in '{}', got null", column).c_str()),
                         InputError);
  }
}

TEST_CASE("null is no answer of axolotl's types either") {
  const auto refuses = [](const DatasetType& type, Objective objective, Json row, const std::string& column) {
    row[column] = nullptr;
    Rows rows(row.dump() + "\n");
    rows.config.type = type;
    RowOptions options;
    options.objective = objective;
    options.chat_template = "chatml";
    CAPTURE(type.name);
    CAPTURE(column);
    CHECK_THROWS_WITH_AS((void)rows.load(options),
                         doctest::Contains(fmt::format("expected text in '{}', got null", column).c_str()), InputError);
  };
  const Json pair = {{"prompt", "a"}, {"input", "a"}, {"chosen", "b"}, {"rejected", "c"}};
  for (const char* column : {"prompt", "chosen", "rejected"}) {
    refuses({true, "chatml.default"}, Objective::kPairs, pair, column);
    refuses({true, "llama3.prompt_pairs"}, Objective::kOrpo, pair, column);
    refuses({true, "", {{"prompt_format", "[{prompt}]"}}}, Objective::kPairs, pair, column);
  }
  refuses({true, "chatml.prompt_pairs"}, Objective::kUnpaired, {{"prompt", "a"}, {"completion", "b"}, {"label", true}},
          "completion");
  for (const char* column : {"input", "chosen", "rejected"})
    refuses({true, "bradley_terry.chat_template"}, Objective::kReward, pair, column);
}

TEST_CASE("an answer is found behind the question, and an empty one is refused") {
  Rows rows(R"({"messages": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"})"
            "\n");
  rows.config.type = {true, "chat_template.default"};
  rows.config.chat_template_jinja = "b c {% for m in messages %}{{ m.content }} {% endfor %}";
  RowOptions options;
  options.objective = Objective::kPairs;
  const Preferences loaded = rows.load(options);
  REQUIRE(loaded.rows.size() == 1);
  CHECK(loaded.rows[0].completions[0].front() == 3);
  CHECK(loaded.rows[0].completions[0].size() <= 2);
  // The template's own words behind the question have the answer, too.
  rows.config.chat_template_jinja =
      "{% for m in messages %}{{ 'b d ' if m.role != 'user' }}{{ m.content }} {% endfor %}";
  CHECK(rows.load(options).rows[0].completions[0] == loaded.rows[0].completions[0]);
  std::ofstream(rows.config.path)
      << R"({"messages": [{"role": "user", "content": "a"}], "chosen": "", "rejected": "c"})";
  CHECK_THROWS_WITH_AS((void)rows.load(options), doctest::Contains("expected an answer in 'chosen', got an empty one"),
                       InputError);
}

TEST_CASE("a prompt of messages wants answers as messages") {
  Rows rows(R"({"prompt": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"})"
            "\n");
  CHECK_THROWS_WITH_AS((void)rows.load({.objective = Objective::kPairs}),
                       doctest::Contains("expected 'prompt' as text like 'chosen', got messages"), InputError);
}

TEST_CASE("written preference rows have the names that trainers read") {
  const TemporaryFolder folder;
  const std::vector<PreferenceRow> rows = {{{5, 6}, {{7}, {8, 9}}}, {{5}, {{6}}, false}};
  write_preferences(folder.path() / "train.jsonl", rows);
  std::ifstream file(folder.path() / "train.jsonl");
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(Json::parse(line) == Json::parse(R"({"prompt_ids": [5, 6], "chosen_ids": [7], "rejected_ids": [8, 9]})"));
  REQUIRE(std::getline(file, line));
  CHECK(Json::parse(line) == Json::parse(R"({"prompt_ids": [5], "completion_ids": [6], "label": false})"));
}

}  // namespace spillway::data
