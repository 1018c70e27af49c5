// Conversations that are made of columns, and the names of a message's properties. What the former should be is
// LLaMA-Factory's converter of alpaca rows (0.9.5, data/converter.py): instruction and input joined by a line break are
// the user's message.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "data/rows/row_builder.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Row> rows_of_columns(const Json& fields, DatasetConfig config) {
  static const text::Tokenizer kTokenizer = text::Tokenizer::load(SPILLWAY_SOURCE_DIR "/tests/golden/rows");
  config.type = {true, "chat_template"};
  RowOptions options;
  options.chat_template = "chatml";
  std::vector<Row> rows;
  make_row_builder(config, options, kTokenizer)->build({fields, "f:1"}, rows);
  return rows;
}

DatasetConfig alpaca_columns() {
  DatasetConfig config;
  config.field_instruction = "instruction";
  config.field_input = "input";
  config.field_output = "output";
  return config;
}

Json messages(const std::string& question, const std::string& system = "") {
  Json list = {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", "Yes."}}};
  if (!system.empty()) list.insert(list.begin(), Json{{"role", "system"}, {"content", system}});
  return {{"messages", std::move(list)}};
}

void check_alike(const Json& columns, const Json& conversation) {
  const std::vector<Row> made = rows_of_columns(columns, alpaca_columns()), said = rows_of_columns(conversation, {});
  REQUIRE(made.size() == 1);
  CHECK(made[0].input_ids == said[0].input_ids);
  CHECK(made[0].labels == said[0].labels);
}

}  // namespace

TEST_CASE("columns of a question, its input and its answer are a conversation that the chat template renders") {
  check_alike({{"instruction", "Is it?"}, {"input", ""}, {"output", "Yes."}}, messages("Is it?"));
  check_alike({{"instruction", "Is it?"}, {"output", "Yes."}}, messages("Is it?"));
  check_alike({{"instruction", "Is it?"}, {"input", "The sky."}, {"output", "Yes."}}, messages("Is it?\nThe sky."));
  check_alike({{"instruction", ""}, {"input", "The sky."}, {"output", "Yes."}}, messages("The sky."));
  check_alike({{"instruction", "Is it?"}, {"input", nullptr}, {"system", "Be brief."}, {"output", "Yes."}},
              messages("Is it?", "Be brief."));
  check_alike({{"instruction", "Is it?"}, {"input", ""}, {"system", ""}, {"output", "Yes."}}, messages("Is it?"));
}

TEST_CASE("a column that a conversation lacks, or one of its two keys, is an error that names it") {
  CHECK_THROWS_WITH(rows_of_columns({{"instruction", "Is it?"}, {"input", ""}}, alpaca_columns()),
                    "[f:1] expected a field 'output', got 'instruction', 'input'; set field_output to the one that "
                    "holds it, or type to what the rows are");
  DatasetConfig half;
  half.path = "a.jsonl";
  half.field_output = "output";
  CHECK_THROWS_WITH(rows_of_columns({{"output", "Yes."}}, half),
                    "[datasets: a.jsonl] expected field_instruction and field_output together, got the second alone; "
                    "give both");
  half.field_output.clear();
  half.field_input = "input";
  CHECK_THROWS_WITH(rows_of_columns({{"input", "The sky."}}, half),
                    "[datasets: a.jsonl] expected field_instruction and field_output together, got field_input alone; "
                    "give both");
}

TEST_CASE("a property that a message has under its mapped name and its own says the same, or the row is an error") {
  DatasetConfig config;
  config.message_property_mappings = {{"role", "from"}, {"content", "value"}};
  const auto rows_of = [&](const Json& question) {
    return rows_of_columns({{"messages", {question, {{"from", "gpt"}, {"value", "Yes."}}}}}, config);
  };
  const std::vector<Row> rows = rows_of({{"from", "human"}, {"role", "user"}, {"value", "Is it?"}});
  CHECK(rows[0].input_ids == rows_of_columns(messages("Is it?"), {})[0].input_ids);
  // axolotl learns from 'content' and 'role' here.
  CHECK_THROWS_WITH(rows_of({{"from", "human"}, {"value", "Is it?"}, {"content", "Is  it?"}}),
                    doctest::Contains("got another one in 'content' than in 'value'"));
  CHECK_THROWS_WITH(rows_of({{"from", "human"}, {"value", "Is it?"}, {"role", "assistant"}}),
                    doctest::Contains("got another one in 'role' than in 'from'"));
}

}  // namespace spillway::data
