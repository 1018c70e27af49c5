// The files are those that MLflow's own client writes (3.17): tools/read_tracker_runs.py reads a run with that.
#include "report/trackers/mlflow_run.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& path) { return read_file(path, 1 << 20); }

MlflowRunInfo mlflow_run_info() {
  return {.id = "0123456789abcdef0123456789abcdef",
          .experiment = "it's an \"experiment\": x",
          .name = "a: name",
          .params = {{"learning_rate", 0.0002}, {"bf16", true}, {"adapter", "lora"}, {"a?b", 1}}};
}

// Returns the folder of the only run of the store.
fs::path run_in(const fs::path& store) {
  for (const auto& entry : fs::recursive_directory_iterator(store)) {
    if (entry.path().filename() == mlflow_run_info().id) return entry.path();
  }
  return {};
}

// Returns the lines of a metric without their times, which have 13 digits.
std::string metric(const fs::path& store, const char* name) {
  std::ifstream lines(run_in(store) / "metrics" / name);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.find(' ') == 13);
    all += line.substr(14) + "\n";
  }
  return all;
}

void write_losses(MlflowRun& run, int64_t first, int64_t last, double loss) {
  for (int64_t step = first; step <= last; ++step) {
    run.begin_step(step);
    run.add("train", "loss", loss / static_cast<double>(step));
    run.end_step();
  }
}

}  // namespace

TEST_CASE("a run is laid out as in MLflow's file store") {
  const TemporaryFolder store;
  MlflowRun run(store.path(), mlflow_run_info(), {});
  write_losses(run, 1, 2, 2);
  run.add("eval", "loss", std::numeric_limits<double>::quiet_NaN());
  const fs::path folder = run_in(store.path());
  CHECK(metric(store.path(), "loss") == "2.0 1\n1.0 2\n");
  CHECK(metric(store.path(), "eval_loss") == "nan 2\n");
  CHECK(content(folder / "params/learning_rate") == "0.0002");
  CHECK(content(folder / "params/bf16") == "True");
  CHECK(content(folder / "params/a_b") == "1");
  CHECK(content(folder / "tags/mlflow.runName") == "a: name");
  CHECK(content(folder / "meta.yaml").find("\nstatus: 1\n") != std::string::npos);
  run.finish(RunEnd::kDone);
  const std::string meta = content(folder / "meta.yaml");
  CHECK(meta.find("\nstatus: 3\n") != std::string::npos);
  CHECK(meta.find("\nend_time: null\n") == std::string::npos);
  CHECK(meta.find("\nrun_name: \"a: name\"\n") != std::string::npos);
  CHECK(content(folder.parent_path() / "meta.yaml").find("name: \"it's an \\\"experiment\\\": x\"\n") !=
        std::string::npos);
}

TEST_CASE("a metric within another one's name has a file beside it") {
  const TemporaryFolder store;
  MlflowRun run(store.path(), mlflow_run_info(), {});
  write_losses(run, 1, 1, 2);
  run.add("train", "loss/policy_avg", 3);  // of PPO
  run.add("train", "entropy/mean", 4);
  CHECK(metric(store.path(), "loss") == "2.0 1\n");
  CHECK(metric(store.path(), "loss.policy_avg") == "3.0 1\n");
  CHECK(metric(store.path(), "entropy/mean") == "4.0 1\n");
}

TEST_CASE("a run goes on behind its checkpoint") {
  const TemporaryFolder store;
  {
    MlflowRun run(store.path(), mlflow_run_info(), {});
    write_losses(run, 1, 4, 4);
    run.add("eval", "loss", 0.5);
    run.finish(RunEnd::kInterrupted);
  }
  MlflowRun run(store.path(), mlflow_run_info(), {.step = 2});
  write_losses(run, 3, 3, 6);
  CHECK(metric(store.path(), "loss") == "4.0 1\n2.0 2\n2.0 3\n");
  CHECK(metric(store.path(), "eval_loss").empty());
  CHECK(content(run_in(store.path()) / "meta.yaml").find("\nstatus: 1\n") != std::string::npos);
}

TEST_CASE("an experiment of the name that another program made is used") {
  const TemporaryFolder store;
  fs::create_directories(store.path() / "1");  // of another name, in which YAML has an escape that JSON lacks
  std::ofstream(store.path() / "1/meta.yaml") << "experiment_id: '1'\nname: \"a \\U0001F680 b\"\n";
  fs::create_directories(store.path() / "709040953805022566");
  std::ofstream(store.path() / "709040953805022566/meta.yaml")
      << "experiment_id: '709040953805022566'\nname: 'it''s an \"experiment\": x'\n";
  const MlflowRun run(store.path(), mlflow_run_info(), {});
  CHECK(run_in(store.path()).parent_path().filename() == "709040953805022566");
}

TEST_CASE("the experiment Default has the id 0") {
  const TemporaryFolder store;
  MlflowRunInfo run = mlflow_run_info();
  run.experiment = "Default";
  const MlflowRun opened(store.path(), run, {});
  CHECK(run_in(store.path()).parent_path().filename() == "0");
}
