// The real program, told to stop.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "io/folder_record.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

TEST_CASE("an interrupt writes a checkpoint and exits 130, without a model under its final name") {
  const TinyJob job;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const std::string name = "interrupted" + std::to_string(signal);
    Process process(job.train(name, {"--max_steps", "100000", "--save_steps", "100000"}));
    const fs::path metrics = job.output(name) / "metrics.jsonl";
    while (!fs::exists(metrics) || fs::file_size(metrics) == 0)  // a step is done
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    process.signal(signal);
    if (signal == SIGHUP) process.signal(signal);  // shells and the kernel both send one
    const Finished interrupted = process.wait();
    CAPTURE(interrupted.err);
    CHECK(interrupted.status == 130);
    CHECK_FALSE(fs::exists(job.output(name) / "adapter_model.safetensors"));
    bool has_checkpoint = false;
    for (const fs::directory_entry& entry : fs::directory_iterator(job.output(name))) {
      has_checkpoint = has_checkpoint || entry.path().filename().string().starts_with("checkpoint-");
    }
    CHECK(has_checkpoint);
    const auto record = read_record(job.output(name));
    REQUIRE(record);
    CHECK(std::none_of(record->files.begin(), record->files.end(),
                       [](const RecordedFile& file) { return file.is_open(); }));
  }
}

TEST_CASE("a signal while the data are read ends a command with 130, and nothing of it stays") {
  const TinyJob job;
  const std::string rows = job.rows();
  std::string many;
  for (int copy = 0; copy < 8000; ++copy) many += rows;
  job.write_rows(many);
  const std::vector<std::string> prepared = {"--dataset_prepared_path", job.output("prepared").string()};
  const auto is_empty = [](const fs::path& folder) { return !fs::exists(folder) || fs::is_empty(folder); };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    for (const char* command : {"train", "preprocess"}) {
      CAPTURE(command);
      std::vector<std::string> args = job.train("early", prepared);
      args[0] = command;
      Process process(args);
      while (is_empty(job.output("prepared"))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      process.signal(signal);
      const Finished ended = process.wait();
      CAPTURE(ended.err);
      CHECK(ended.status == 130);
      CHECK(ended.err.ends_with("interrupted\n"));
      CHECK(is_empty(job.output("prepared")));
      CHECK_FALSE(fs::exists(job.output("early")));
    }
  }
}

TEST_CASE("a signal after the last step lets the run finish its folder, with 130 where it came in time") {
  const TinyJob job;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const std::string name = "late" + std::to_string(signal);
    Process process(job.train(name, {"--max_steps", "3"}));
    while (!fs::exists(job.output(name) / "checkpoint-3")) std::this_thread::sleep_for(std::chrono::microseconds(100));
    process.signal(signal);
    const Finished ended = process.wait();
    CAPTURE(ended.err);
    CHECK((ended.status == 130 || ended.status == 0));
    for (const char* file : {"adapter_model.safetensors", "adapter_config.json", "report.json", "report.html"}) {
      CAPTURE(file);
      CHECK(fs::exists(job.output(name) / file));
    }
  }
}

TEST_CASE("a signal during an evaluation saves the step at once, and the run goes on with that evaluation") {
  const TinyJob job;
  const std::string rows = job.rows();
  std::string many;
  for (int copy = 0; copy < 200; ++copy) many += rows;
  job.write_rows(many);
  const auto evaluations = [&](const char* name) {
    std::map<int, double> losses;
    std::istringstream lines(read_file(job.output(name) / "metrics.jsonl", 1 << 24));
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (record.contains("eval_loss")) CHECK(losses.emplace(record["step"], record["eval_loss"]).second);
    }
    return losses;
  };
  const std::vector<std::string> args = {"--val_set_size", "0.9", "--eval_steps", "1", "--max_steps", "2"};
  Process process(job.train("cut", args));
  const fs::path metrics = job.output("cut") / "metrics.jsonl";
  while (!fs::exists(metrics) || fs::file_size(metrics) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.signal(SIGTERM);
  const Finished cut = process.wait();
  CAPTURE(cut.err);
  CHECK(cut.status == 130);
  CHECK(fs::exists(job.output("cut") / "checkpoint-1"));
  CHECK(evaluations("cut").empty());
  std::vector<std::string> more = args;
  more.insert(more.end(), TinyJob::kResume.begin(), TinyJob::kResume.end());
  const Finished resumed = run_spillway(job.train("cut", more));
  CAPTURE(resumed.err);
  CHECK(resumed.status == 0);
  REQUIRE(run_spillway(job.train("whole", args)).status == 0);
  CHECK(evaluations("cut") == evaluations("whole"));
  CHECK(job.adapter("cut") == job.adapter("whole"));
}
