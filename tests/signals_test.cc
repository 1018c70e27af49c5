// The real program, told to stop.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <thread>

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
    while (!fs::exists(job.output(name) / "metrics.jsonl")) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
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
