// What a config says of its data: the types of datasets, text to pretrain on, streams.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "train/config.h"
#include "train/config_load.h"

using namespace spillway;
using namespace spillway::train;

TEST_CASE("an empty dataset type means tokenised rows, none means TRL's rules") {
  const Config config = load_config(
                            "base_model: m\nlearning_rate: 1\ndatasets:\n  - path: a\n    type:\n  - path: b\n"
                            "  - {path: c, type: ''}\n",
                            "c.yml", {}, ConfigUse::kTrain)
                            .config;
  CHECK(config.datasets.at(0).type.given);
  CHECK(config.datasets[0].type.name.empty());
  CHECK_FALSE(config.datasets[1].type.given);
  CHECK(config.datasets[2].type.given);
}

TEST_CASE("text to pretrain on is a path or a list, and stands in for datasets") {
  const auto load = [](const std::string& keys) {
    return load_config("base_model: m\nlearning_rate: 1\nmax_steps: 5\n" + keys, "c.yml", {}, ConfigUse::kTrain).config;
  };
  const Config path = load("pretraining_dataset: text.jsonl\n");
  REQUIRE(path.datasets.size() == 1);
  CHECK(path.datasets[0].path == "text.jsonl");
  CHECK(path.datasets[0].type.name == "pretrain");
  const Config list =
      load("pretraining_dataset:\n  - {path: a, text_column: body, skip: 7}\n  - {path: b, type: completion}\n");
  REQUIRE(list.datasets.size() == 2);
  CHECK(list.datasets[0].text_column == "body");
  CHECK(list.datasets[0].skip == 7);
  CHECK(list.datasets[1].type.name == "completion");
  CHECK(list.streaming);
  const Config both = load("pretraining_dataset: a\ndatasets: [{path: b}]\n");
  REQUIRE(both.datasets.size() == 1);
  CHECK(both.datasets[0].path == "a");
  CHECK_FALSE(load("datasets: [{path: b}]\n").streaming);
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
