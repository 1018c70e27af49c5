// Keys of the trackers of experiments.
#include <doctest/doctest.h>

#include <string>

#include "config/file_uri.h"
#include "config/load.h"
#include "config/tracker_settings.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

namespace {

// "tensorboard wandb mlflow trackio", of these what is written for.
std::string written(std::string_view keys) {
  const LoadedConfig loaded = load(keys);
  const TrackerSettings trackers = trackers_of(loaded);
  std::string names = loaded.config.output.tensorboard ? "tensorboard " : "";
  if (trackers.wandb) names += "wandb ";
  if (trackers.mlflow) names += "mlflow ";
  if (trackers.trackio) names += "trackio ";
  return names.substr(0, names.empty() ? 0 : names.size() - 1);
}

}  // namespace

TEST_CASE("report_to and the keys of its trackers say for which files are written") {
  CHECK(written("use_tensorboard: true\n") == "tensorboard");
  CHECK(written("report_to: tensorboard\n") == "tensorboard");
  CHECK(written("report_to: [wandb, tensorboard]\n") == "tensorboard wandb");
  CHECK(written("report_to: all\n") == "tensorboard wandb mlflow trackio");
  CHECK(written("report_to: all\nuse_wandb: false\n") == "tensorboard mlflow trackio");
  CHECK(written("use_wandb: true\nuse_mlflow: true\n") == "wandb mlflow");
  CHECK(written("report_to: trackio\n") == "trackio");
  CHECK(written("use_trackio: true\ntrackio_project_name: p\n") == "trackio");
  CHECK(written("report_to: none\n").empty());
  CHECK(written("report_to:\n").empty());
  CHECK(written("wandb_project: p\nmlflow_experiment_name: e\nproject: p\n").empty());
}

TEST_CASE("a key of the command line takes its tracker alone out of the file's list, or puts it there") {
  const LoadedConfig without = load("report_to: [tensorboard, wandb]\n", {{"use_tensorboard", "false"}});
  CHECK_FALSE(without.config.output.tensorboard);
  CHECK(trackers_of(without).wandb);
  CHECK(trackers_of(load("report_to: none\n", {{"use_wandb", "true"}})).wandb);
  CHECK_FALSE(trackers_of(load("use_wandb: true\n", {{"report_to", "none"}})).wandb);
}

TEST_CASE("of trackers that are not built in, a line says that nothing is written") {
  const LoadedConfig others = load("report_to: [comet_ml, wandb]\n");
  REQUIRE(others.notes.size() == 1);
  CHECK(others.notes[0].starts_with("report_to: nothing is written for comet_ml; "));
  CHECK(error_of("report_to: tensorbord\n") ==
        "[c.yml:6: report_to] expected tensorboard, wandb, mlflow, trackio, none or another of transformers' trackers, "
        "got "
        "'tensorbord'; did you mean tensorboard?");
}

TEST_CASE("a run's name is that of its tracker, else run_name") {
  const TrackerSettings own =
      trackers_of(load("report_to: [wandb, mlflow]\nrun_name: r\nwandb_name: w\nwandb_mode: offline\n"));
  CHECK(own.wandb->name == "w");
  CHECK(own.wandb->mode == "offline");
  CHECK(own.mlflow->name == "r");
  CHECK(trackers_of(load("report_to: wandb\nrun_name: r\n")).wandb->name == "r");
  const TrackerSettings trackio = trackers_of(load("report_to: trackio\nrun_name: r\nproject: p\n"));
  CHECK(trackio.trackio->name == "r");
  CHECK(trackio.trackio->project == "p");
}

TEST_CASE("values that a tracker could not take are refused") {
  CHECK(error_of("report_to: wandb\nwandb_mode: onlin\n").find("expected online, offline or disabled") !=
        std::string::npos);
  CHECK(error_of("report_to: wandb\nwandb_run_id: a/b\n").find("got 'a/b'") != std::string::npos);
  CHECK(error_of("report_to: mlflow\nmlflow_tracking_uri: http://localhost:5000\n")
            .find("expected a folder or a file: URI") != std::string::npos);
  CHECK(error_of("mlflow_tracking_uri: http://localhost:5000\n").empty());
}

TEST_CASE("a folder is a path or a URI of the scheme file") {
  CHECK(folder_of_uri("a/b") == "a/b");
  CHECK(folder_of_uri("C:x") == "C:x");
  CHECK(folder_of_uri("file:a/b") == "a/b");
  CHECK(folder_of_uri("file:///a%20b/%zz") == "/a b/%zz");
  CHECK(folder_of_uri("file://localhost/a") == "/a");
  CHECK_FALSE(folder_of_uri("file://other/a"));
  CHECK_FALSE(folder_of_uri("https://x"));
  CHECK_FALSE(folder_of_uri("sqlite:///mlflow.db"));
  CHECK_FALSE(folder_of_uri("databricks"));
}
