// Nothing of a conversation is lost without a word: what a chat template leaves out of a row is refused where it is
// learned, and counted where it is not.
#include "data/rows/left_out_parts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/dataset.h"
#include "data/rows/preference_rows.h"
#include "data/rows/prompts.h"
#include "data/rows/row_builder.h"
#include "io/file.h"
#include "tests/support/dataset_case.h"
#include "text/left_out_warnings.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;
using text::LeftOutKind;

// Shows users and assistants alone, as many templates do; a list of contents by its texts.
constexpr const char* kUsersAndAssistants =
    "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<|im_start|>{{ m.role }}\n{% if m.content is "
    "string %}"
    "{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}<|im_end|>\n{% endif %}{% "
    "endfor %}";

RowOptions rendered_by(const std::string& template_text, Objective objective = Objective::kText) {
  RowOptions options;
  options.objective = objective;
  options.chat_template = "jinja";
  options.chat_template_jinja = template_text;
  return options;
}
RowOptions named(const char* name) {
  RowOptions options;
  options.chat_template = name;
  return options;
}

DatasetConfig untyped() { return {}; }
DatasetConfig conversations() {
  DatasetConfig config;
  config.type = {true, "chat_template"};
  return config;
}

std::vector<Row> built(const DatasetConfig& config, const RowOptions& options, const char* fields) {
  std::vector<Row> rows;
  make_row_builder(config, options, dataset_tokenizer())->build({Json::parse(fields), "f.jsonl:7"}, rows);
  return rows;
}

std::string build_error(const DatasetConfig& config, const RowOptions& options, const char* fields) {
  try {
    (void)built(config, options, fields);
  } catch (const InputError& wrong) {
    return wrong.what();
  }
  return "no error";
}

int64_t count(const Row& row, LeftOutKind kind) { return row.left_out.counts[static_cast<size_t>(kind)]; }

std::string whole_text(const Row& row) { return dataset_tokenizer().decode(row.input_ids, false); }
std::string targets_text(const Row& row) {
  std::vector<int32_t> ids;
  for (const int32_t label : row.labels) {
    if (label != kIgnoredLabel) ids.push_back(label);
  }
  return dataset_tokenizer().decode(ids, false);
}

constexpr const char* kWithSystem =
    R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "alpha"},
                     {"role": "assistant", "content": "beta"}]})";

}  // namespace

TEST_CASE("human and gpt are user and assistant without a type, too") {
  const char* shared = R"({"conversations": [{"from": "human", "value": "alpha"}, {"from": "gpt", "value": "beta"}]})";
  const char* usual =
      R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "beta"}]})";
  const std::vector<Row> rows = built(untyped(), named("qwen_25"), shared);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].input_ids == built(untyped(), named("qwen_25"), usual)[0].input_ids);
  CHECK(whole_text(rows[0]).find("<|im_start|>assistant\nbeta<|im_end|>") != std::string::npos);
}

TEST_CASE("a learned message that the template leaves out is refused with its row, whatever the type") {
  const char* unknown = R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "bot", "content": "beta"}]})";
  const std::string error = build_error(untyped(), named("qwen_25"), unknown);
  CHECK(error.find("[f.jsonl:7] expected a chat template that shows message 2 ('bot')") != std::string::npos);
  CHECK(error.find("say with roles") != std::string::npos);
  DatasetConfig typed = conversations();
  typed.roles_to_train = {"bot"};
  CHECK(build_error(typed, named("qwen_25"), unknown).find("message 2 ('bot')") != std::string::npos);
  // Without a type, all but instructions is learned.
  CHECK(count(built(untyped(), rendered_by(kUsersAndAssistants), kWithSystem)[0], LeftOutKind::kSystem) == 1);
  CHECK(build_error(untyped(), rendered_by(kUsersAndAssistants),
                    R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "text": "beta"}]})")
            .find("expected text as the content of message 2 ('assistant')") != std::string::npos);
}

TEST_CASE("a message that is not learned is counted by its kind") {
  const std::vector<Row> rows = built(conversations(), rendered_by(kUsersAndAssistants), kWithSystem);
  REQUIRE(rows.size() == 1);
  CHECK(count(rows[0], LeftOutKind::kSystem) == 1);
  CHECK(rows[0].left_out.rows == 1);
  CHECK(targets_text(rows[0]) == "beta<|im_end|>");
  LeftOutParts sum;
  for (int i = 0; i < 3; ++i) sum.add(rows[0].left_out);
  CHECK(left_out_warning(sum, 10).find("leaves out 3 system messages in 3 of 10 rows") != std::string::npos);
  CHECK(left_out_from_json(to_json(sum)).counts == sum.counts);
  CHECK_FALSE(built(conversations(), named("chatml"), kWithSystem)[0].left_out.any());
  // Beside a completion, and beside answers alone.
  const char* pair = R"({"prompt": [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "alpha"}],
                         "completion": [{"role": "assistant", "content": "beta"}]})";
  CHECK(count(built(untyped(), named("qwen_25"), pair)[0], LeftOutKind::kDeveloper) == 1);
}

TEST_CASE("a part of a content that is no text is refused in a learned message, and counted elsewhere") {
  const auto fields = [](const char* role, const char* part) {
    return fmt::format(
        R"({{"messages": [{{"role": "user", "content": "alpha"}}, {{"role": "{}", "content": [{{"type": "text",
                       "text": "beta"}}, {}]}}, {{"role": "assistant", "content": "gamma"}}]}})",
        role, part);
  };
  struct Case {
    const char* part;
    LeftOutKind kind;
  };
  for (const Case& one :
       {Case{R"({"type": "tool_use", "name": "search", "input": {"n": 1}})", LeftOutKind::kToolCalls},
        {R"({"type": "thinking", "thinking": "hmm"})", LeftOutKind::kThoughts},
        {R"({"type": "refusal", "refusal": "NOPE"})", LeftOutKind::kUser},
        {R"({"type": "tool_result", "content": [{"type": "text", "text": "42"}]})", LeftOutKind::kUser},
        {R"({"type": "json", "json": {"a": 1}})", LeftOutKind::kUser},
        {R"({"type": "input_text", "input_text": "delta"})", LeftOutKind::kUser},
        {"7", LeftOutKind::kUser}}) {
    CAPTURE(std::string(one.part));
    const std::string asked = fields("user", one.part), learned = fields("assistant", one.part);
    CHECK(count(built(conversations(), rendered_by(kUsersAndAssistants), asked.c_str())[0], one.kind) == 1);
    const std::string error = build_error(conversations(), rendered_by(kUsersAndAssistants), learned.c_str());
    CHECK(
        error.starts_with("[f.jsonl:7] expected text alone in message 2 ('assistant'), which is learned, got a part"));
  }
  // Without a type the template sees the parts; it leaves out those that hold no text, too.
  const std::string json = fields("assistant", R"({"type": "json", "json": {"a": 1}})");
  CHECK(build_error(untyped(), rendered_by(kUsersAndAssistants), json.c_str()).find("message 2 ('assistant')") !=
        std::string::npos);
  for (const char* nothing : {R"({"type": "text", "text": ""})", R"({"type": "text", "text": null})", "null"})
    CHECK_FALSE(built(conversations(), rendered_by(kUsersAndAssistants), fields("assistant", nothing).c_str())[0]
                    .left_out.any());
}

TEST_CASE("thoughts of earlier turns that Qwen3's template drops are counted, and the row stays") {
  const char* thoughts =
      R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "<think>\none\n</think>\n\nbeta"},
                       {"role": "user", "content": "gamma"}, {"role": "assistant", "content": "<think>\ntwo\n</think>\n\ndelta"}]})";
  for (const DatasetConfig& config : {untyped(), conversations()}) {
    const std::vector<Row> rows = built(config, named("qwen3"), thoughts);
    CHECK(whole_text(rows[0]).find("two") != std::string::npos);
    CHECK(count(rows[0], LeftOutKind::kThoughts) == 1);
  }
}

TEST_CASE("tool calls that the template leaves out of an answer are refused") {
  const char* call =
      R"({"messages": [{"role": "user", "content": "weather in Oslo"}, {"role": "assistant", "content": "", "tool_calls": [
          {"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}]}]})";
  for (const DatasetConfig& config : {untyped(), conversations()}) {
    CHECK(build_error(config, named("chatml"), call).find("shows the tool calls of message 2 ('assistant')") !=
          std::string::npos);
    CHECK(build_error(config, named("qwen_25"), call) == "no error");
  }
}

TEST_CASE("tools that the template does not show, or the type does not read, are counted") {
  const char* tools =
      R"({"messages": [{"role": "user", "content": "weather in Oslo"}, {"role": "assistant", "content": "mild"}],
          "tools": [{"type": "function", "function": {"name": "weather", "description": "of a town", "parameters": {}}},
                    {"type": "function", "function": {"name": "time", "parameters": {}}}]})";
  for (const DatasetConfig& config : {untyped(), conversations()}) {
    const LeftOutParts counts = built(config, named("chatml"), tools)[0].left_out;
    CHECK(counts.counts[static_cast<size_t>(LeftOutKind::kTools)] == 2);
    CHECK(left_out_warning(counts, 1).find("leaves out 2 descriptions of tools in 1 of 1 rows") != std::string::npos);
    CHECK_FALSE(built(config, named("qwen_25"), tools)[0].left_out.any());
  }
  DatasetConfig other = conversations();
  other.field_tools = "functions";
  CHECK(count(built(other, named("qwen_25"), tools)[0], LeftOutKind::kTools) == 2);
  // A column of the name that holds no list of tools is no tool, and no error.
  const char* words = R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "beta"}],
                          "tools": "hammer, nails"})";
  CHECK(count(built(other, named("qwen_25"), words)[0], LeftOutKind::kTools) == 0);
}

TEST_CASE("images are counted where they are not learned, and refused where they are") {
  const char* image =
      R"({"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is it"}]},
                       {"role": "assistant", "content": [{"type": "text", "text": "a fox"}]}], "images": ["a.png"]})";
  const RowOptions options = rendered_by(kUsersAndAssistants);
  CHECK(count(built(conversations(), options, image)[0], LeftOutKind::kMedia) == 1);
  CHECK(build_error(untyped(), options, image).find("expected text alone in message 1 ('user')") != std::string::npos);
  const char* column = R"({"image": "a.png", "conversations": [{"from": "human", "value": "what is it"},
                                                                {"from": "gpt", "value": "a fox"}]})";
  CHECK(count(built(untyped(), options, column)[0], LeftOutKind::kMedia) == 1);
}

TEST_CASE("texts that stand in a list of contents without a part's name are shown") {
  const char* list = R"({"messages": [{"role": "user", "content": ["one ", {"type": "text", "text": "two"}]},
                                      {"role": "assistant", "content": "three"}]})";
  const std::vector<Row> rows = built(conversations(), named("chatml"), list);
  CHECK(whole_text(rows[0]).find("one two") != std::string::npos);
  CHECK_FALSE(rows[0].left_out.any());
}

TEST_CASE("preferences and prompts are held to the same") {
  RowOptions pairs = rendered_by(kUsersAndAssistants, Objective::kPairs);
  const char* with_system =
      R"({"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "alpha"}],
          "chosen": [{"role": "assistant", "content": "beta"}], "rejected": [{"role": "assistant", "content": "gamma"}]})";
  CHECK(count(built(untyped(), pairs, with_system)[0], LeftOutKind::kSystem) == 1);
  const char* unknown = R"({"prompt": [{"role": "user", "content": "alpha"}],
          "chosen": [{"role": "assistant", "content": "beta"}], "rejected": [{"role": "bot", "content": "gamma"}]})";
  for (const Objective objective : {Objective::kPairs, Objective::kOrpo, Objective::kUnpaired, Objective::kReward}) {
    const RowOptions options = rendered_by(kUsersAndAssistants, objective);
    CHECK(build_error(untyped(), options, unknown)
              .find("[f.jsonl:7] expected a chat template that shows message 2 ('bot')") != std::string::npos);
  }
  DatasetConfig typed;
  typed.type = {true, "chat_template.default"};
  const char* messages =
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "alpha"}],
          "chosen": {"role": "assistant", "content": "beta"}, "rejected": {"role": "assistant", "content": "gamma"}})";
  CHECK(count(built(typed, pairs, messages)[0], LeftOutKind::kSystem) == 1);
  // This type reads role and content of messages, as axolotl's does.
  const char* more = R"({"messages": [{"role": "user", "content": "alpha"},
                      {"role": "assistant", "content": "beta", "tool_calls": [{"function": {"name": "f"}}]}],
          "chosen": [{"role": "assistant", "content": "beta"}, {"role": "user", "content": "gamma"},
                     {"role": "assistant", "content": "beta"}],
          "rejected": {"role": "assistant", "content": "gamma"}})";
  CHECK(count(built(typed, pairs, more)[0], LeftOutKind::kToolCalls) == 1);
  CHECK(count(built(typed, pairs, more)[0], LeftOutKind::kUser) == 1);
  CHECK(count(built(typed, pairs, more)[0], LeftOutKind::kAssistant) == 1);
  CHECK(
      build_error(typed, pairs, R"({"messages": [{"role": "user", "content": "alpha"}],
          "chosen": {"role": "assistant", "content": "beta", "reasoning_content": "gamma"},
          "rejected": {"role": "assistant", "content": "gamma"}})")
          .find("expected an answer with role and content alone for a type of chat_template, got reasoning_content") !=
      std::string::npos);
  CHECK(build_error(typed, pairs, R"({"messages": [{"role": "user", "content": "alpha"}],
          "chosen": {"role": "assistant", "content": "beta"},
          "rejected": {"role": "assistant", "content": "gamma", "thinking": "beta"}})")
            .find("alone for a type of chat_template, got thinking") != std::string::npos);
  typed.type.name = "chatml.ultra";
  CHECK(build_error(typed, pairs, R"({"prompt": "alpha",
        "chosen": [{"role": "system", "content": "beta"}, {"role": "user", "content": "alpha"},
                   {"role": "assistant", "content": "beta"}],
        "rejected": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "no"}]})")
            .find("expected the assistant as the second of 'chosen', which this type reads, got \"user\"") !=
        std::string::npos);
  // These read two messages of an answer, as axolotl's do.
  for (const char* type : {"chatml.ultra", "llama3.argilla_chat"}) {
    typed.type.name = type;
    const Row row = built(typed, pairs, R"({"prompt": "alpha",
        "chosen": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "beta"},
                   {"role": "user", "content": "gamma"}, {"role": "assistant", "content": "delta"}],
        "rejected": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "no"}]})")[0];
    CHECK(count(row, LeftOutKind::kUser) == 1);
    CHECK(count(row, LeftOutKind::kAssistant) == 1);
  }

  const TemporaryFolder folder;
  DatasetConfig prompts;
  prompts.path = (folder.path() / "p.jsonl").string();
  const auto load = [&](const char* line) {
    write_file(prompts.path, line);
    return load_prompts(std::span(&prompts, 1), rendered_by(kUsersAndAssistants, Objective::kPrompts),
                        dataset_tokenizer());
  };
  CHECK(load(R"({"prompt": [{"role": "system", "content": "Be brief."}, {"role": "human", "content": "alpha"}]})")[0]
            .left_out.rows == 1);
  CHECK_THROWS_WITH_AS((void)load(R"({"prompt": [{"role": "customer", "content": "alpha"}]})"),
                       doctest::Contains("p.jsonl:1] expected a chat template that shows message 1 ('customer')"),
                       InputError);
}

TEST_CASE("a message of weight 0 is not learned, with or without a type") {
  const char* weighed =
      R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "bad answer", "weight": 0},
                       {"role": "user", "content": "gamma"}, {"role": "assistant", "content": "good answer", "weight": 1}]})";
  CHECK(targets_text(built(conversations(), named("chatml"), weighed)[0]) == "good answer<|im_end|>");
  CHECK(targets_text(built(untyped(), named("chatml"), weighed)[0]) ==
        "<|im_start|>user\nalpha<|im_end|>\n<|im_start|>assistant\n\n<|im_start|>user\ngamma<|im_end|>\n"
        "<|im_start|>assistant\ngood answer<|im_end|>\n");
  // A message that is not learned may be left out.
  CHECK(
      count(
          built(
              untyped(), named("qwen_25"),
              R"({"messages": [{"role": "user", "content": "alpha"}, {"role": "bot", "content": "beta", "weight": 0}]})")
              [0],
          LeftOutKind::kOther) == 1);
}

TEST_CASE("the counts of all rows are those of the data set") {
  const TemporaryFolder folder;
  DatasetConfig config = conversations();
  config.path = (folder.path() / "d.jsonl").string();
  std::string lines;
  for (int i = 0; i < 5; ++i) lines += Json::parse(kWithSystem).dump() + "\n";
  write_file(config.path, lines);
  const Dataset read = load_datasets(std::span(&config, 1), rendered_by(kUsersAndAssistants), dataset_tokenizer());
  CHECK(read.summary.left_out.rows == 5);
  CHECK(to_json(read.summary)["left_out"]["system"] == 5);
  CHECK(summary_from_json(to_json(read.summary)).left_out.counts == read.summary.left_out.counts);
}

}  // namespace spillway::data
