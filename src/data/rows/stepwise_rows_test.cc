#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/dataset.h"
#include "data/rows/row_builder.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::data;
using Json = nlohmann::ordered_json;

namespace {

const std::filesystem::path kStepwiseGolden = SPILLWAY_SOURCE_DIR "/tests/golden/rows";

DatasetConfig stepwise_config(const Json& options) {
  DatasetConfig config;
  config.type = {.given = true, .name = "stepwise_supervised"};
  config.step_separator = options.value("step_separator", "\n");
  config.train_on_last_step_only = options.value("train_on_last_step_only", false);
  if (options.contains("max_completion_length")) config.max_completion_length = options["max_completion_length"];
  return config;
}

RowOptions stepwise_options(const Json& options) {
  return {.objective = Objective::kSteps, .sequence_len = options.value("sequence_len", int64_t{2048})};
}

}  // namespace

TEST_CASE("rows of steps have the tokens and labels that axolotl gives them") {
  const text::Tokenizer tokenizer = text::Tokenizer::load(kStepwiseGolden);
  const Json golden = Json::parse(read_file(kStepwiseGolden / "streams.json", int64_t{1} << 20));
  for (const Json& one : golden["stepwise"]) {
    CAPTURE(one["options"].dump());
    const auto builder = make_row_builder(stepwise_config(one["options"]), stepwise_options(one["options"]), tokenizer);
    for (size_t i = 0; i < one["records"].size(); ++i) {
      std::vector<Row> rows;
      builder->build({.fields = one["records"][i], .where = "golden"}, rows);
      REQUIRE(rows.size() == 1);
      CHECK(rows[0].input_ids == one["rows"][i]["input_ids"].get<std::vector<int32_t>>());
      CHECK(rows[0].labels == one["rows"][i]["labels"].get<std::vector<int32_t>>());
    }
  }
}

TEST_CASE("a long prompt loses its beginning, a BOS included, as in TRL") {
  const text::Tokenizer tokenizer = text::Tokenizer::load(kStepwiseGolden);
  REQUIRE(tokenizer.bos_id().has_value());
  const Record record{.fields = {{"prompt", "one two three"}, {"completions", {"a"}}, {"labels", {true}}},
                      .where = "row"};
  const auto ids_of = [&](int64_t max_prompt_length) {
    RowOptions options = stepwise_options(Json::object());
    options.max_prompt_length = max_prompt_length;
    std::vector<Row> rows;
    make_row_builder(stepwise_config(Json::object()), options, tokenizer)->build(record, rows);
    return rows.at(0).input_ids;
  };
  const std::vector<int32_t> whole = ids_of(0);
  CHECK(whole.front() == *tokenizer.bos_id());
  const auto prompt = static_cast<int64_t>(tokenizer.encode("one two three", false).size()) + 1;
  CHECK(ids_of(prompt) == whole);
  CHECK(ids_of(prompt - 1) == std::vector<int32_t>(whole.begin() + 1, whole.end()));
}

TEST_CASE("steps without as many labels, and labels that are neither right nor wrong, are refused") {
  const text::Tokenizer tokenizer = text::Tokenizer::load(kStepwiseGolden);
  const auto error_of = [&](const Json& fields) -> std::string {
    std::vector<Row> rows;
    try {
      make_row_builder(stepwise_config(Json::object()), stepwise_options(Json::object()), tokenizer)
          ->build({.fields = fields, .where = "row"}, rows);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(
      error_of({{"prompt", "p"}, {"completions", {"a"}}, {"labels", {true, false}}}).find("expected as many labels") !=
      std::string::npos);
  CHECK(error_of({{"prompt", "p"}, {"completions", {"a"}}, {"labels", {2}}}).find("expected true or false") !=
        std::string::npos);
  CHECK(error_of({{"prompt", "p"}, {"completions", {nullptr}}, {"labels", {1}}}).find("got null") != std::string::npos);
  CHECK(error_of({{"prompt", "p"}, {"labels", {1}}})
            .find("expected a field 'completions', got 'prompt', 'labels'; give "
                  "the rows that field, or set type to what they are") != std::string::npos);
  DatasetConfig other = stepwise_config(Json::object());
  CHECK_THROWS_WITH_AS((void)make_row_builder(other, {}, tokenizer),
                       doctest::Contains("expected process_reward_model: true beside type: stepwise_supervised"),
                       InputError);
  other.type.name = "alpaca";
  CHECK_THROWS_AS((void)make_row_builder(other, stepwise_options(Json::object()), tokenizer), InputError);
}
