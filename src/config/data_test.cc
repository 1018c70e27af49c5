// The data of a config: the types of datasets, text to pretrain on, streams.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "config/config.h"
#include "config/load.h"

using namespace spillway;
using namespace spillway::config;

TEST_CASE("an empty dataset type means tokenised rows, none means TRL's rules") {
  const Config config = load_config(
                            "base_model: m\nlearning_rate: 1\ndatasets:\n  - path: a\n    type:\n  - path: b\n"
                            "  - {path: c, type: ''}\n",
                            "c.yml", {}, ConfigUse::kTrain)
                            .config;
  CHECK(config.data.datasets.at(0).type.given);
  CHECK(config.data.datasets[0].type.name.empty());
  CHECK_FALSE(config.data.datasets[1].type.given);
  CHECK(config.data.datasets[2].type.given);
}

TEST_CASE("text to pretrain on is a path or a list, and stands in for datasets") {
  const auto load = [](const std::string& keys) {
    return load_config("base_model: m\nlearning_rate: 1\nmax_steps: 5\n" + keys, "c.yml", {}, ConfigUse::kTrain).config;
  };
  const Config path = load("pretraining_dataset: text.jsonl\n");
  REQUIRE(path.data.datasets.size() == 1);
  CHECK(path.data.datasets[0].path == "text.jsonl");
  CHECK(path.data.datasets[0].type.name == "pretrain");
  const Config list =
      load("pretraining_dataset:\n  - {path: a, text_column: body, skip: 7}\n  - {path: b, type: completion}\n");
  REQUIRE(list.data.datasets.size() == 2);
  CHECK(list.data.datasets[0].text_column == "body");
  CHECK(list.data.datasets[0].skip == 7);
  CHECK(list.data.datasets[1].type.name == "completion");
  CHECK(list.data.stream);
  const Config both = load("pretraining_dataset: a\ndatasets: [{path: b}]\n");
  REQUIRE(both.data.datasets.size() == 1);
  CHECK(both.data.datasets[0].path == "a");
  CHECK_FALSE(load("datasets: [{path: b}]\n").data.stream);
}

TEST_CASE("what chat templates see and how rows share a line are as the config's YAML reads in Python") {
  const auto check = [](const std::string& keys) {
    return check_config("base_model: m\nlearning_rate: 1\ndatasets: [{path: b}]\n" + keys, "c.yml", {},
                        ConfigUse::kTrain);
  };
  const auto error = [&](const std::string& keys) { return first_problem(check(keys)); };
  const LoadedConfig loaded = check(
      "chat_template_kwargs: {thinking: no, n: -1_000, x: 1.5, big: 1.0e+3, word: 1e3, quoted: '7', none: null, list: "
      "[on, a]}\n");
  CHECK(first_problem(loaded).empty());
  CHECK(loaded.config.data.rows.chat_template_kwargs.json ==
        R"({"thinking":false,"n":-1000,"x":1.5,"big":1000.0,"word":"1e3","quoted":"7","none":null,"list":[true,"a"]})");
  CHECK(error("chat_template_kwargs: 3\n").find("expected a mapping") != std::string::npos);

  CHECK(check("").config.data.batches.line_rows == 200);
  CHECK(check("sample_packing_bin_size: 3\n").config.data.batches.line_rows == 3);
  CHECK(
      error("sample_packing_bin_size: -3\n").find("expected an integer of at least 0 and at most 16777216, got '-3'") !=
      std::string::npos);
  const LoadedConfig unused = check("default_system_message: Be brief.\n");
  CHECK(first_problem(unused).empty());
  CHECK(unused.ignored == std::vector<std::string>{"default_system_message"});
}

TEST_CASE("TRL's names of tokens are those of special_tokens") {
  const auto check = [](const std::string& keys) {
    return check_config("base_model: m\nlearning_rate: 1\ndatasets: [{path: b}]\n" + keys, "c.yml", {},
                        ConfigUse::kTrain);
  };
  const Config config = check("eos_token: <e>\npad_token: <p>\n").config;
  CHECK(config.tokenizer.special_tokens.eos_token == "<e>");
  CHECK(config.tokenizer.special_tokens.pad_token == "<p>");
  CHECK(first_problem(check("eos_token: <e>\nspecial_tokens: {eos_token: <e>}\n")).empty());
  CHECK(first_problem(check("eos_token: <e>\nspecial_tokens: {eos_token: <f>}\n"))
            .find("eos_token] expected the token of special_tokens.eos_token, '<f>', got '<e>'; remove one") !=
        std::string::npos);
}

TEST_CASE("a stream needs max_steps, and takes no part of its rows aside") {
  const auto error_of = [](const std::string& keys) {
    return first_problem(
        check_config("base_model: m\nlearning_rate: 1\ndatasets: [{path: b}]\nstreaming: true\n" + keys, "c.yml", {},
                     ConfigUse::kTrain));
  };
  CHECK(error_of("max_steps: 3\n").empty());
  CHECK(error_of("max_steps: 3\nval_set_size: 0\n").empty());
  CHECK(error_of("").find("streaming] expected max_steps beside it") != std::string::npos);
  CHECK(error_of("max_steps: -1\n").find("streaming] expected max_steps beside it") != std::string::npos);
  for (const char* key : {"val_set_size: 0.1", "dataset_exact_deduplication: true", "group_by_length: true"}) {
    const std::string error = error_of(fmt::format("max_steps: 3\n{}\n", key));
    CAPTURE(error);
    CHECK(error.find("expected rows that are all read first, got streaming beside it") != std::string::npos);
  }
  const std::string sorted = error_of("max_steps: 3\ntrain_sampling_strategy: group_by_length\n");
  CHECK(sorted.starts_with("[c.yml:6: train_sampling_strategy] expected rows that are all read first"));
  const auto rewarded = [](const std::string& keys) {
    return first_problem(check_config("base_model: m\nmax_steps: 3\nprocess_reward_model: true\n" + keys, "c.yml", {},
                                      ConfigUse::kPreprocess));
  };
  CHECK(rewarded("datasets: [{path: b}]\nstreaming: true\n").ends_with("got streaming beside it; remove streaming"));
  CHECK(rewarded("pretraining_dataset: x\n").ends_with("got pretraining_dataset beside it; name the data in datasets"));
}

TEST_CASE("a dataset's type is known before its data are") {
  const auto error_of = [](const std::string& keys) {
    return first_problem(check_config("base_model: m\nlearning_rate: 1\n" + keys, "c.yml", {}, ConfigUse::kTrain));
  };
  for (const char* type : {"alpaca", "alpaca:chat", "", "sharegpt.load", "chat_template", "{format: '{instruction}'}"})
    CHECK(error_of(fmt::format("datasets: [{{path: b, type: {}}}]\n", type)) == "");
  CHECK(error_of("datasets: [{path: b, type: alpacca}]\n").find("did you mean alpaca?") != std::string::npos);
  CHECK(error_of("datasets: [{path: b, type: alpaca:nosuch}]\n").find("behind the colon") != std::string::npos);
  // Said by its key, whichever objective's rows it is no type of.
  for (const char* more :
       {"", "rl: dpo\n", "rl: grpo\nreward_funcs: [get_repetition_penalty_reward]\n", "process_reward_model: true\n"}) {
    CAPTURE(std::string(more));
    for (const char* type : {"3", "nosuch", "true"}) {
      const std::string message = error_of(fmt::format("datasets: [{{path: b, type: {}}}]\n{}", type, more));
      CHECK(message.starts_with("[c.yml:3: datasets.0.type] expected "));
    }
  }
  CHECK(error_of("datasets: [{path: b, type: alpaca:nosuch}]\n").starts_with("[c.yml:3: datasets.0.type] expected "));
  CHECK(error_of("datasets: [{path: b}]\ntest_datasets: [{path: b, type: nosuch}]\n")
            .starts_with("[c.yml:4: test_datasets.0.type] expected a type of"));
}

namespace {

LoadedConfig data_config(const std::string& keys) {
  return check_config("base_model: m\nlearning_rate: 1\n" + keys, "c.yml", {}, ConfigUse::kTrain);
}

std::string data_error(const std::string& keys) { return first_problem(data_config(keys)); }

const std::string kOneDataset = "datasets: [{path: b}]\n";

}  // namespace

TEST_CASE("tokens as a mapping are special_tokens, as in axolotl's first versions") {
  const LoadedConfig loaded = data_config(kOneDataset + "tokens: {pad_token: <p>, bos_token: <s>}\n");
  CHECK(first_problem(loaded).empty());
  CHECK(loaded.config.tokenizer.special_tokens.pad_token == "<p>");
  CHECK(loaded.config.tokenizer.special_tokens.bos_token == "<s>");
  CHECK(loaded.config.tokenizer.special_tokens.tokens.empty());
  CHECK(data_config(kOneDataset + "tokens: [a, b]\n").config.tokenizer.special_tokens.tokens ==
        std::vector<std::string>{"a", "b"});
  CHECK(data_error(kOneDataset + "tokens: {pad_token: <p>}\nspecial_tokens: {pad_token: <q>}\n")
            .find("expected one value for tokens.pad_token and special_tokens.pad_token") != std::string::npos);
  CHECK(data_error(kOneDataset + "tokens: {pad_tokn: <p>}\n").find("tokens.pad_tokn") != std::string::npos);
}

TEST_CASE("a test dataset without a split leaves it to the data") {
  const auto config = data_config(kOneDataset + "test_datasets:\n  - path: a\n  - path: b\n    split: validation\n");
  CHECK(config.config.data.datasets[0].split == "train");
  CHECK(config.config.data.test_datasets[0].split.empty());
  CHECK(config.config.data.test_datasets[1].split == "validation");
}

TEST_CASE("rows that validate are the last ones where axolotl does not shuffle before it splits") {
  const auto is_random = [](const std::string& keys) {
    return data_config(kOneDataset + keys).config.data.validation_seed.has_value();
  };
  CHECK(is_random("val_set_size: 0.1\n"));
  CHECK_FALSE(is_random("val_set_size: 0.1\nshuffle_merged_datasets: false\n"));
  CHECK_FALSE(is_random("val_set_size: 0.1\ncurriculum_sampling: true\n"));
  CHECK(is_random("test_split_size: 0.1\nshuffle_merged_datasets: false\n"));
}

TEST_CASE("data_seed orders the rows and nothing else does it decide") {
  const Config config = data_config(kOneDataset + "seed: 5\ndata_seed: 9\n").config;
  CHECK(config.seed == 5);
  CHECK(config.data.validation_seed == 5);
  CHECK(config.data.batches.packing_seed == 5);
  CHECK(config.data.batches.seed == 9);
  CHECK(data_config(kOneDataset + "seed: 5\n").config.data.batches.seed == 5);
}

TEST_CASE("dataloader_drop_last is of training and evaluation, but not of streams") {
  const Config config = data_config(kOneDataset + "dataloader_drop_last: true\n").config;
  CHECK(config.data.batches.drops_last);
  CHECK(config.data.evaluation_batches.drops_last);
  const LoadedConfig stream = data_config("pretraining_dataset: b\nmax_steps: 3\ndataloader_drop_last: true\n");
  CHECK_FALSE(stream.config.data.batches.drops_last);
  CHECK(stream.verdicts.spelled(Verdict::kIgnored) == std::vector<std::string>{"dataloader_drop_last"});
}

TEST_CASE("test_split_size is val_set_size of datasets, and a fraction is of all of them") {
  CHECK(data_config(kOneDataset + "test_split_size: 0.1\n").config.data.val_set_size == 0.1);
  CHECK(data_config(kOneDataset + "test_split_size: 7\n").config.data.val_set_size == 7);
  CHECK(data_config("dataset_name: b\ntest_split_size: 0.1\n").config.data.val_set_size == 0);
  CHECK(data_error(kOneDataset + "test_split_size: 0.1\nval_set_size: 0.2\n")
            .find("expected the share of val_set_size, 0.2, got 0.1") != std::string::npos);
  CHECK(data_error(kOneDataset + "test_split_size: 0.1\ntest_datasets: [{path: c}]\n").find("got both") !=
        std::string::npos);
  CHECK(data_error(kOneDataset + "test_split_size: 0.1\nstreaming: true\nmax_steps: 3\n")
            .find("evaluate on test_datasets") != std::string::npos);

  const Config mixed =
      data_config("datasets: [{path: a, fraction: 1}, {path: b, fraction: 3, columns: [x], data_dir: d}]\n").config;
  CHECK(mixed.data.datasets.at(1).fraction == 3);
  CHECK(mixed.data.datasets[1].columns == std::vector<std::string>{"x"});
  CHECK(mixed.data.datasets[1].data_dir == "d");
  CHECK(data_error("datasets: [{path: a, fraction: 1}, {path: b}]\n")
            .find("expected a fraction of every dataset or of none") != std::string::npos);
  CHECK(data_error("datasets: [{path: a, fraction: 0}]\n").find("expected a fraction above 0") != std::string::npos);
  CHECK(data_error("datasets: [{path: a, fraction: 1}]\nstreaming: true\nmax_steps: 3\n")
            .find("got a stream beside it") != std::string::npos);
}

TEST_CASE("rows of test_datasets have the length of eval_sequence_len, as many as have the room of a micro-batch") {
  const std::string both = kOneDataset + "test_datasets: [{path: c}]\nsequence_len: 100\nmicro_batch_size: 4\n";
  const Config longer = data_config(both + "eval_sequence_len: 200\n").config;
  CHECK(longer.data.eval_sequence_len == 200);
  CHECK(longer.data.evaluation_batches.sequence_len == 200);
  CHECK(longer.data.evaluation_batches.rows == 2);
  CHECK(longer.batches.tokens() == 400);
  const Config shorter = data_config(both + "eval_sequence_len: 10\n").config;
  CHECK(shorter.data.evaluation_batches.rows == 4);
  CHECK(shorter.data.rows.sequence_len == 100);
  const LoadedConfig longest = data_config(both + "eval_sequence_len: 1000\n");
  CHECK(longest.config.data.evaluation_batches.rows == 1);
  CHECK(longest.config.batches.tokens() == 1000);
  CHECK(longest.notes.size() == 1);
  const LoadedConfig unread = data_config(kOneDataset + "val_set_size: 0.1\neval_sequence_len: 10\n");
  CHECK(unread.config.data.eval_sequence_len == 0);
  CHECK(unread.ignored == std::vector<std::string>{"eval_sequence_len"});
}

TEST_CASE("an option of a dataset's entry that its rows do not read is an error, or a line where they do so anyway") {
  const auto error_of = [](const std::string& entry, const char* more = "") {
    return data_error(fmt::format("datasets: [{{path: b, {}}}]\n{}", entry, more));
  };
  // Rows without a type read none of conversations.
  for (const char* option :
       {"roles_to_train: [assistant]", "train_on_eos: none", "train_on_eos: turn", "train_on_eot: all",
        "message_field_training: train", "message_field_training_detail: parts", "drop_system_message: true",
        "split_thinking: true", "field_messages: dialogue", "field_tools: functions", "field_thinking: thought",
        "message_property_mappings: {role: speaker}", "message_field_role: speaker", "roles: {assistant: [bot]}",
        "field_system: persona"}) {
    CAPTURE(std::string(option));
    const std::string key = std::string(option).substr(0, std::string_view(option).find(':'));
    const std::string error = error_of(option);
    CHECK(
        error.starts_with(fmt::format("[c.yml:3: datasets.0.{}] expected an option that rows without a type read, got "
                                      "{}, which would change nothing; set type: chat_template",
                                      key, key)));
    CHECK(error_of(fmt::format("type: chat_template, {}", option)) == "");
  }
  CHECK(error_of("field: body").ends_with("; set type: completion, or remove it"));
  CHECK(error_of("template_thinking_key: t").starts_with("[c.yml:3: datasets.0.template_thinking_key] expected"));
  CHECK(data_error("datasets: [{path: b}]\ntest_datasets: [{path: b}, {path: b, roles: {assistant: [bot]}}]\n")
            .starts_with("[c.yml:4: test_datasets.1.roles] expected an option"));
  // Other types have options of their own.
  for (const char* entry :
       {"type: alpaca, field_system: s", "type: alpaca, chat_template: chatml", "type: alpaca, train_on_eos: none",
        "type: jeopardy, field_output: o", "type: completion, text_column: t", "type: '', field: t",
        "type: {field_output: o}, field_input: i", "type: {field_prompt: p}", "type: input_output, roles: {user: [a]}",
        "step_separator: x", "field_prompt: q"})
    CHECK(error_of(entry).find("which would change nothing") != std::string::npos);
  CHECK(error_of("type: {field_output: o}, field_input: i").find("write it below type, as type.field_input") !=
        std::string::npos);
  for (const char* entry : {"type: alpaca_w_system, field_system: s", "type: alpaca, field_output: o, field_input: i",
                            "type: completion, field: body", "type: sharegpt, roles: {assistant: [bot]}",
                            "chat_template: chatml", "type: {field_output: o, system_prompt: p}"})
    CHECK(error_of(entry) == "");
  // Preferences and steps read other options.
  CHECK(error_of("field_chosen: c, chat_template: chatml", "rl: dpo\n") == "");
  CHECK(error_of("type: chat_template.default, field_chosen: c, field_messages: m, roles: {user: [a]}", "rl: dpo\n") ==
        "");
  CHECK(error_of("type: chatml.intel, field_chosen: c", "rl: dpo\n").find("set type: chat_template.default") !=
        std::string::npos);
  CHECK(error_of("roles_to_train: [user]", "rl: dpo\n").ends_with("which would change nothing; remove it"));
  CHECK(error_of("type: {field_chosen: c, chosen_format: '{chosen}'}", "rl: dpo\n") == "");
  CHECK(error_of("type: {field_instruction: c}", "rl: dpo\n").find("type.field_instruction") != std::string::npos);
  CHECK(error_of("train_on_last_step_only: true", "process_reward_model: true\n") == "");
  // Rows are anyway as these say.
  const LoadedConfig loaded = data_config(
      "datasets: [{path: b, field_messages: messages, drop_system_message: false, roles: {user: [human, user], "
      "assistant: [gpt]}, message_property_mappings: {role: from, content: value}}, {path: c, type: alpaca, "
      "roles_to_train: [assistant]}]\n");
  CHECK(first_problem(loaded) == "");
  CHECK(loaded.ignored == std::vector<std::string>{"datasets.0.field_messages", "datasets.0.drop_system_message",
                                                   "datasets.0.roles", "datasets.0.message_property_mappings",
                                                   "datasets.1.roles_to_train"});
}

TEST_CASE("train_on_inputs is completion_only_loss to rows without a type") {
  const auto of = [](const std::string& keys) { return data_config(keys).config.data.rows.completion_only_loss; };
  CHECK(of(kOneDataset) == std::nullopt);
  CHECK(of(kOneDataset + "train_on_inputs: false\n") == true);
  CHECK(of(kOneDataset + "train_on_inputs: true\n") == false);
  CHECK(of("datasets: [{path: b, type: alpaca}]\ntrain_on_inputs: true\n") == std::nullopt);
}
