#include <doctest/doctest.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/rows/prompts.h"
#include "io/file.h"
#include "tests/support/dataset_case.h"

using namespace spillway;
using namespace spillway::data;

namespace {

std::vector<PromptRow> load(const std::string& lines, const RowOptions& options = {}, double weight = 1) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "p.jsonl";
  write_file(file, lines);
  DatasetConfig config;
  config.path = file.string();
  config.weight = weight;
  return load_prompts(std::span(&config, 1), options, dataset_tokenizer());
}

}  // namespace

TEST_CASE("a prompt is a text or messages, and what stands beside it is kept as it is") {
  RowOptions options;
  options.chat_template = "jinja";
  options.chat_template_jinja =
      "{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}A:{% endif %}";
  const std::vector<PromptRow> rows = load(
      "{\"prompt\": \"one two\", \"answer\": 3, \"tags\": [\"a\"]}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"hi\"}], \"answer\": null}\n",
      options);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].ids == dataset_tokenizer().encode("one two", true));
  CHECK(rows[0].prompt == "one two");
  CHECK(rows[0].columns.dump() == R"({"answer":3,"tags":["a"]})");
  CHECK(rows[1].ids == dataset_tokenizer().encode("<hi>A:", false));
  CHECK(rows[1].prompt.at(0).at("content") == "hi");
}

TEST_CASE("rows without a prompt are refused by their line") {
  CHECK_THROWS_WITH_AS((void)load("{\"prompt\": \"a\"}\n{\"answer\": 3}\n"), doctest::Contains("p.jsonl:2"),
                       InputError);
  CHECK_THROWS_WITH_AS((void)load("{\"prompt\": null}\n"), doctest::Contains("p.jsonl:1"), InputError);
  DatasetConfig typed;
  typed.type = {.given = true, .name = "alpaca"};
  CHECK_THROWS_WITH_AS(check_prompt_type(typed, "datasets.0.type"),
                       doctest::Contains("expected no type for rows of prompts"), InputError);
}

TEST_CASE("of rows of prompts that are equal the first stays, where equal rows are not wanted") {
  const std::string one = "{\"prompt\": \"one\", \"answer\": 1}\n", two = "{\"prompt\": \"one\", \"answer\": 2}\n";
  const std::string lines = one + two + one;
  CHECK(load(lines).size() == 3);
  RowOptions options;
  options.deduplicate = true;
  const std::vector<PromptRow> rows = load(lines, options);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].columns.at("answer") == 1);
  CHECK(rows[1].columns.at("answer") == 2);
  CHECK(load(lines, options, 2).size() == 4);  // copies are no duplicates
}
