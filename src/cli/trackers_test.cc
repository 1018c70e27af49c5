#include "cli/trackers.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

using namespace spillway;

namespace {

Environment environment_of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

const train::RunIdentity kRun = {.id = "0123456789abcdef", .started = "2026-11-29T16:57:42"};

}  // namespace

TEST_CASE("wandb's names are the config's, then those of its variables, then transformers' own") {
  const Environment set = environment_of({{"WANDB_PROJECT", "p"},
                                          {"WANDB_ENTITY", "e"},
                                          {"WANDB_NAME", "n"},
                                          {"WANDB_RUN_ID", "i"},
                                          {"WANDB_TAGS", "a,b"},
                                          {"WANDB_RUN_GROUP", "g"},
                                          {"WANDB_DIR", "/d"}});
  const WandbRunInfo of_config = wandb_info({"P", "E", "N", "I", ""}, kRun, {}, set);
  CHECK((of_config.project == "P" && of_config.entity == "E" && of_config.name == "N" && of_config.id == "I"));
  const WandbRunInfo of_variables = wandb_info({}, kRun, {}, set);
  CHECK((of_variables.project == "p" && of_variables.entity == "e" && of_variables.name == "n"));
  CHECK(of_variables.id == "i");
  CHECK(of_variables.tags == std::vector<std::string>{"a", "b"});
  CHECK(of_variables.group == "g");
  CHECK(wandb_folder("out", set) == "/d/wandb");
  const Environment empty = environment_of({});
  const WandbRunInfo bare = wandb_info({}, kRun, {}, empty);
  CHECK((bare.project == "huggingface" && bare.id == "01234567" && bare.name.empty()));
  CHECK(wandb_folder("out", empty) == "out/wandb");
}

TEST_CASE("wandb is off where the config or the environment says so") {
  const Environment empty = environment_of({});
  CHECK(is_wandb_enabled({}, empty));
  CHECK(is_wandb_enabled({.mode = "online"}, environment_of({{"WANDB_MODE", "disabled"}})));
  CHECK_FALSE(is_wandb_enabled({.mode = "disabled"}, empty));
  CHECK_FALSE(is_wandb_enabled({}, environment_of({{"WANDB_MODE", "disabled"}})));
  CHECK_FALSE(is_wandb_enabled({}, environment_of({{"WANDB_DISABLED", "true"}})));
}

TEST_CASE("a run id of the environment that is no part of a file's name is refused") {
  CHECK_THROWS_WITH_AS((void)wandb_info({}, kRun, {}, environment_of({{"WANDB_RUN_ID", "../x"}})),
                       doctest::Contains("[WANDB_RUN_ID]"), InputError);
}

TEST_CASE("MLflow's store is the folder of the URI, else that of the output") {
  const Environment empty = environment_of({});
  CHECK(mlflow_store({}, "out", empty) == "out/mlruns");
  CHECK(mlflow_store({.tracking_uri = "file:///a%20b"}, "out", empty) == "/a b");
  CHECK(mlflow_store({}, "out", environment_of({{"MLFLOW_TRACKING_URI", "runs"}})) == "runs");
  CHECK(mlflow_store({}, "out", environment_of({{"MLFLOW_TRACKING_URI", "http://localhost:5000"}})) == "out/mlruns");
  const MlflowRunInfo info = mlflow_info({}, kRun, "a/out/", {}, empty);
  CHECK((info.name == "out" && info.experiment == "Default" && info.id.size() == 32));
}

TEST_CASE("trackio's inbox is in TRACKIO_DIR, else in the output, whose name the run has") {
  const Environment empty = environment_of({});
  CHECK(trackio_folder("a/out", empty) == "a/out/trackio");
  CHECK(trackio_folder("a/out", environment_of({{"TRACKIO_DIR", "/t"}})) == "/t");
  const TrackioRunInfo bare = trackio_info({}, kRun, "a/out", {});
  CHECK((bare.project == "huggingface" && bare.name == "out" && bare.id == kRun.id));
  const TrackioRunInfo named = trackio_info({.project = "p", .name = "n"}, kRun, "a/out", {});
  CHECK((named.project == "p" && named.name == "n"));
}
