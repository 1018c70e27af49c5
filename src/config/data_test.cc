// What a config says of its data: the types of datasets, text to pretrain on, streams.
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
  CHECK(error_of("datasets: [{path: b}]\ntest_datasets: [{path: b, type: nosuch}]\n").find("expected a type of") !=
        std::string::npos);
}
