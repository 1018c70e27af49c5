#include "job/data_warnings.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/index.h"

using namespace spillway;
using namespace spillway::train;

namespace {

// Rows of ten tokens, of which the first `masked` are no targets.
data::Dataset rows_of(int masked, int64_t count = 20) {
  std::vector<data::Row> rows;
  for (int64_t i = 0; i < count; ++i) {
    data::Row row{.input_ids = std::vector<int32_t>(10, 7), .labels = std::vector<int32_t>(10, 7)};
    for (int j = 0; j < masked; ++j) nth(row.labels, j) = data::kIgnoredLabel;
    rows.push_back(std::move(row));
  }
  data::Dataset dataset{data::RowTable(rows), {}};
  dataset.summary.rows = count;
  return dataset;
}

std::vector<data::DatasetConfig> of_type(const char* name) {
  std::vector<data::DatasetConfig> datasets(1);
  datasets.front().type = {true, name};
  return datasets;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("over a tenth of rows that are dropped is a warning with the remedy for most of them") {
  data::RowOptions options;
  options.sequence_len = 64;
  data::Dataset read = rows_of(5, 18);
  const auto warnings = [&] { return data_warnings("datasets", of_type("alpaca"), options, read); };
  read.summary.dropped = {.too_long = 2};  // 2 of 20: a tenth
  CHECK(warnings().empty());
  read.summary.dropped = {.too_short = 1, .too_long = 2};
  REQUIRE(warnings().size() == 1);
  CHECK(has(warnings().front(), "datasets: 3 of 21 rows are dropped: 2 are longer than 64 tokens; raise sequence_len"));
  CHECK(has(warnings().front(), "excess_length_strategy: truncate"));
  read.summary.dropped = {.no_targets = 9};
  CHECK(has(warnings().front(), "9 have no token to learn; raise sequence_len"));
  options.length_rules = data::LengthRules::kTrl;
  CHECK(has(warnings().front(), "raise max_length"));
  read.summary.dropped = {.empty = 9};
  CHECK(has(warnings().front(), "9 are empty; see that the fields"));
  read.summary.dropped = {.too_short = 9};
  CHECK(has(warnings().front(), "lower min_sample_len"));
  read.summary.dropped = {.duplicate = 9};  // as asked for
  CHECK(warnings().empty());
}

TEST_CASE("prompts whose last token joins the completion's first are a warning with their count") {
  data::Dataset read = rows_of(5, 18);
  const auto warnings = [&] { return data_warnings("datasets", of_type(""), {}, read); };
  CHECK(warnings().empty());
  read.summary.joined_prompts = 3;
  REQUIRE(warnings().size() == 1);
  CHECK(has(warnings().front(), "datasets: in 3 of 18 rows a token joins the prompt's end"));
}

TEST_CASE("over a tenth of rows that are truncated is a warning with what is lost, and with a length that is enough") {
  data::RowOptions options;
  options.sequence_len = 64;
  data::Dataset read = rows_of(5, 20);
  read.summary.lengths = data::LengthTally(64);
  for (int i = 0; i < 17; ++i) read.summary.lengths.add(40);
  for (const int64_t length : {100, 200, 300}) read.summary.lengths.add(length);
  read.summary.tokens = 17 * 40 + 3 * 64;
  read.summary.tokens_cut = 600 - 3 * 64;
  const auto warnings = [&] { return data_warnings("datasets", of_type("alpaca"), options, read); };
  read.summary.truncated = 2;
  CHECK(warnings().empty());
  read.summary.truncated = 3;
  REQUIRE(warnings().size() == 1);
  CHECK(warnings().front() ==
        "datasets: 3 of 20 rows are truncated to 64 tokens, which loses 408 of 1280 tokens; raise sequence_len (128 is "
        "enough for nine of ten rows), or leave long rows out of the data");
  options.length_rules = data::LengthRules::kTrl;
  CHECK(has(warnings().front(), "raise max_length (128"));
}

TEST_CASE("where the limits of prompts and completions cut rows, the warning names them") {
  data::RowOptions options;
  options.sequence_len = 64;
  options.max_prompt_length = 3;
  data::Dataset read = rows_of(5, 20);
  read.summary.lengths = data::LengthTally(64);
  for (int i = 0; i < 20; ++i) read.summary.lengths.add(40);
  read.summary.tokens = 20 * 30;
  read.summary.tokens_cut = 20 * 10;
  read.summary.truncated = 20;
  const auto warning = [&] { return data_warnings("datasets", of_type("chatml.intel"), options, read).front(); };
  CHECK(warning() ==
        "datasets: 20 of 20 rows are truncated by max_prompt_length: 3, which loses 200 of 800 tokens; raise these "
        "limits, or leave long rows out of the data");
  options.max_completion_length = 2;
  CHECK(has(warning(), "truncated by max_prompt_length: 3 and max_completion_length: 2,"));
  for (int i = 0; i < 20; ++i) read.summary.lengths.add(100);
  CHECK(has(warning(), "truncated to 64 tokens"));
  options.objective = data::Objective::kSteps;
  CHECK(has(warning(), "truncated by max_prompt_length: 3 and max_completion_length: 2,"));
}

TEST_CASE("preferences whose prompts are all empty, or whose answers are the same, are warnings") {
  const data::RowOptions options{.objective = data::Objective::kPairs};
  std::vector<data::Row> rows(2);
  rows[0] = {.input_ids = {1, 5, 6, 7}, .values = {1, 2}};
  rows[1] = {.input_ids = {1, 5, 6, 5, 6}, .values = {1, 2}};
  const auto warnings = [&] {
    const data::Dataset read{data::RowTable(rows, data::kPairColumns), {.rows = 2}};
    return data_warnings("datasets", of_type(""), options, read);
  };
  REQUIRE(warnings().size() == 2);
  CHECK(has(warnings()[0], "datasets: the prompt is empty in all 2 rows; name its column in field_prompt"));
  CHECK(has(warnings()[1], "the chosen and the rejected answer are the same in 1 of 2 rows"));
  rows[1] = {.input_ids = {1, 2, 6, 5, 6}, .values = {2, 1}};
  CHECK(warnings().empty());
}

TEST_CASE("targets everywhere are a warning where the config masks prompts, and only there") {
  data::RowOptions options;
  const auto count = [&](const std::vector<data::DatasetConfig>& datasets, int masked) {
    return data_warnings("datasets", datasets, options, rows_of(masked)).size();
  };
  CHECK(count(of_type("chat_template"), 1) == 1);  // the first token is nobody's target: 9 of 9
  CHECK(count(of_type("chat_template"), 2) == 0);  // 8 of 9
  CHECK(has(data_warnings("datasets", of_type("alpaca"), options, rows_of(0)).front(), "100% of the tokens"));
  for (const char* type : {"completion", "pretrain", "input_output", ""}) CHECK(count(of_type(type), 0) == 0);
  std::vector<data::DatasetConfig> users = of_type("chat_template");
  users.front().roles_to_train = {"user", "assistant"};
  CHECK(count(users, 0) == 0);
  std::vector<data::DatasetConfig> trls(1);
  CHECK(count(trls, 0) == 0);
  options.completion_only_loss = true;
  CHECK(has(data_warnings("datasets", trls, options, rows_of(0)).front(),
            "100% of the tokens are targets though prompts are masked; completion_only_loss masks prompts in rows of "
            "prompt and completion; in conversations ('messages') assistant_only_loss: true does"));
  CHECK(has(data_warnings("datasets", of_type("alpaca"), options, rows_of(0)).front(), "say train_on_inputs: true"));
  options.assistant_only_loss = true;
  CHECK(count(trls, 0) == 1);
  options.train_on_inputs = true;
  CHECK(count(of_type("chat_template"), 0) == 0);
}

TEST_CASE("masked tokens are a warning where the config asks to learn prompts, too") {
  data::RowOptions options{.train_on_inputs = true};
  const auto said = [&] { return data_warnings("datasets", of_type(""), options, rows_of(4)); };
  CHECK(has(said().front(), "67% of the tokens are targets though train_on_inputs: true asks for prompts, too"));
  options = {.completion_only_loss = false};
  CHECK(has(said().front(), "though completion_only_loss: false asks for prompts, too"));
  CHECK(data_warnings("datasets", of_type("chat_template"), options, rows_of(4)).empty());
  options = {};
  CHECK(said().empty());
}

TEST_CASE("where in no row the end of an answer is a target is one warning with its remedy") {
  data::RowOptions options;
  data::Dataset read = rows_of(5);
  auto datasets = of_type("chat_template");
  const auto warnings = [&](const char* key = "datasets") { return data_warnings(key, datasets, options, read); };
  CHECK(warnings().empty());  // nothing is known of answers
  read.summary.answers = {{.rows = 20}};
  REQUIRE(warnings().size() == 1);
  CHECK(has(warnings().front(), "datasets: the end of the answer is a target in none of 20 rows"));
  CHECK(has(warnings().front(), "name the token that ends an answer in eot_tokens"));
  CHECK(warnings("test_datasets").empty());
  datasets.front().train_on_eos = data::TrainOnEos::kNone;
  CHECK(has(warnings().front(), "remove train_on_eos: none"));
  read.summary.truncated = 20;
  CHECK(has(warnings().back(), "all rows are cut; raise sequence_len"));
  read.summary.truncated = 0;
  read.summary.answers.front().with_end = 1;
  CHECK(warnings().empty());
}

TEST_CASE("a dataset in which no end of an answer is a target is named beside others that have ends") {
  data::Dataset read = rows_of(5);
  auto datasets = of_type("chat_template");
  datasets.front().path = "with_ends.jsonl";
  datasets.push_back(datasets.front());
  datasets.back().path = "without.jsonl";
  read.summary.answers = {{.rows = 20, .with_end = 19}, {.rows = 7}};
  const auto warnings = data_warnings("datasets", datasets, {}, read);
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings.front(),
            "the end of the answer is a target in none of 7 rows of without.jsonl, so that the model "
            "does not learn to stop behind them; name the token"));
}
