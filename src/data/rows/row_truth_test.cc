// Tests that rows mark their parts by Python's truth, as in axolotl: data written for it has 0 and 1, too.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/rows/row_builder.h"
#include "io/file.h"
#include "tests/support/dataset_case.h"

using namespace spillway;
using namespace spillway::data;

namespace {

using Json = nlohmann::ordered_json;

Row truth_row(const DatasetConfig& config, const Json& fields, const RowOptions& options) {
  std::vector<Row> rows;
  make_row_builder(config, options, dataset_tokenizer())->build({fields, "f:1"}, rows);
  return rows.at(0);
}

std::string truth_error(const DatasetConfig& config, const Json& fields, const RowOptions& options) {
  try {
    (void)truth_row(config, fields, options);
  } catch (const InputError& wrong) {
    return wrong.what();
  }
  return "no error";
}

// The text that the row has trained.
std::string learned_text(const Row& row) {
  std::vector<int32_t> ids;
  for (const int32_t label : row.labels) {
    if (label != kIgnoredLabel) ids.push_back(label);
  }
  return dataset_tokenizer().decode(ids, false);
}

RowOptions chatml() {
  RowOptions options;
  options.chat_template = "chatml";
  return options;
}

DatasetConfig chats() {
  DatasetConfig config;
  config.type = {true, "chat_template"};
  config.message_field_training = "weight";
  config.message_field_training_detail = "detail";
  return config;
}

// Two answers, of which the first has `extra`.
Json chat(const Json& extra) {
  Json first = {{"role", "assistant"}, {"content", "bad"}};
  first.update(extra);
  return {{"messages",
           {{{"role", "user"}, {"content", "q"}},
            first,
            {{"role", "user"}, {"content", "r"}},
            {{"role", "assistant"}, {"content", "good"}}}}};
}

}  // namespace

TEST_CASE("a turn is left out by message_field_training 0 as by false, and trained by 1 as by true") {
  const auto learned = [](const Json& weight) {
    return learned_text(truth_row(chats(), chat({{"weight", weight}}), chatml()));
  };
  const std::string without = learned(false), with = learned(true);
  CHECK(without.find("bad") == std::string::npos);
  CHECK(without.find("good") != std::string::npos);
  CHECK(with.find("bad") != std::string::npos);
  CHECK(learned(0) == without);
  CHECK(learned(0.0) == without);
  CHECK(learned(1) == with);
  CHECK(learned(nullptr) == with);  // says nothing: an answer is trained
  CHECK(truth_error(chats(), chat({{"weight", "false"}}), chatml()) ==
        "[f:1] expected true, false or a number in 'weight', got string; correct the row");
}

TEST_CASE("parts of a turn are left out by train 0 as by false") {
  const auto detail = [](const Json& train) {
    return chat({{"detail", {{{"begin_offset", 0}, {"end_offset", 2}, {"train", train}}}}});
  };
  const auto learned = [&](const Json& train) { return learned_text(truth_row(chats(), detail(train), chatml())); };
  CHECK(learned(0) == learned(false));
  CHECK(learned(1) == learned(true));
  CHECK(learned(0) != learned(1));
  CHECK(truth_error(chats(), detail("no"), chatml()).find("expected true, false or a number in 'train', got string") !=
        std::string::npos);
}

TEST_CASE("segments are learned by label 1 as by true") {
  DatasetConfig config;
  config.type = {true, "input_output"};
  const auto segments = [](const Json& first, const Json& second) {
    return Json{{"segments", {{{"label", first}, {"text", "question"}}, {{"label", second}, {"text", "answer"}}}}};
  };
  CHECK(learned_text(truth_row(config, segments(false, true), {})) == "answer");
  CHECK(learned_text(truth_row(config, segments(0, 1), {})) == "answer");
  CHECK(truth_error(config, segments(0, "yes"), {}) ==
        "[f:1] expected true, false or a number in 'label', got string; correct the row");
}

TEST_CASE("rows of preferences are no rows of text: the message names the objective") {
  const DatasetConfig columns;
  const auto error = [&](const Json& row) { return truth_error(columns, row, {}); };
  for (const Json& label : {Json(true), Json(false), Json("True")}) {
    CHECK(error({{"prompt", "p"}, {"completion", "c"}, {"label", label}}) ==
          "[f:1] expected rows to learn from, got prompt, completion and a label of true or false, which says whether "
          "the completion is good; set rl: kto, or remove the column");
  }
  CHECK(error({{"prompt", "p"}, {"completion", "c"}, {"label", "positive"}}) == "no error");
  CHECK(error({{"prompt", "p"}, {"completion", "c"}, {"label", 3}}) == "no error");
  for (const Json& row : {Json{{"prompt", "p"}, {"chosen", "c"}, {"rejected", "r"}},
                          Json{{"chosen", Json::array()}, {"rejected", Json::array()}}}) {
    CHECK(error(row) ==
          "[f:1] expected rows to learn from, got chosen and rejected, which are preferences; set rl: dpo (or orpo, "
          "simpo, ...), or reward_model: true");
  }
  // Published sets have a conversation to learn beside the pair.
  CHECK(error({{"text", "t"}, {"chosen", "c"}, {"rejected", "r"}}) == "no error");
}

TEST_CASE("a conversation without a type is refused where prompts are not to be learned") {
  RowOptions options = chatml();
  options.completion_only_loss = true;  // which train_on_inputs: false is, too
  const DatasetConfig columns;
  CHECK(
      truth_error(columns, chat(Json::object()), options) ==
      "[f:1] expected rows of prompt and completion beside train_on_inputs: false (completion_only_loss: true), got a "
      "conversation in 'messages', of which all is learned without a type; set type: chat_template, or "
      "assistant_only_loss: true, or remove the key");
  CHECK(truth_error(columns, {{"text", "t"}}, options) == "no error");
  CHECK(truth_error(columns, {{"prompt", "p"}, {"completion", "c"}}, options) == "no error");
}

TEST_CASE("a weight that is no number and no boolean is refused, with and without a type") {
  DatasetConfig typed;
  typed.type = {true, "chat_template"};
  for (const DatasetConfig& config : {typed, DatasetConfig()}) {
    CHECK(truth_error(config, chat({{"weight", "0"}}), chatml()) ==
          "[f:1] expected true, false or a number in 'weight', got string; correct the row");
    CHECK(learned_text(truth_row(config, chat({{"weight", false}}), chatml())).find("bad") == std::string::npos);
    CHECK(learned_text(truth_row(config, chat({{"weight", 0.5}}), chatml())).find("bad") != std::string::npos);
  }
}

TEST_CASE("split_thinking refuses text that it would drop") {
  DatasetConfig config;
  config.type = {true, "chat_template"};
  config.split_thinking = true;
  const auto error = [&](const char* answer) {
    return truth_error(
        config, {{"messages", {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", answer}}}}},
        chatml());
  };
  CHECK(error("IMPORTANT <think>abc</think>ans") ==
        "[f:1] expected nothing beside <think> in an answer that split_thinking splits, got 'IMPORTANT ', which would "
        "be dropped; move it into the thought or the answer, or remove split_thinking");
  CHECK(error("<think>abc</think><|begin_of_solution|>a<|end_of_solution|> b").find("got ' b'") != std::string::npos);
  CHECK(error("\n<think>abc</think>ans") == "no error");
}

TEST_CASE("a token of eot_tokens that the chat template does not write is said") {
  RowOptions options = chatml();
  options.eot_tokens = {"<|im_end|>", "<|eot_id|>"};
  DatasetConfig config;
  config.type = {true, "chat_template"};
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log.txt";
  const int before = ::dup(STDERR_FILENO), file = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(file, STDERR_FILENO);
  (void)make_row_builder(config, options, dataset_tokenizer());
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  const std::string said = read_file(log, kMiB);
  CHECK(said.find("eot_tokens has '<|eot_id|>', which the chat template does not write") != std::string::npos);
  CHECK(said.find("im_end") == std::string::npos);
}
