// The real program where a call fails once, and where it is killed between two calls.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

// With sanitizers, whose own libraries must come first, there are no faults.
#ifdef SPILLWAY_FAULTS

namespace {

const std::vector<std::string> kOneStep = {"--max_steps", "1"};
const std::vector<std::string> kFull = {"--adapter", "none"};

// Runs the program with a fault of tests/support/faults.cc.
Finished run_with_fault(const std::string& fault, const std::vector<std::string>& args) {
  const Environment environment({{"LD_PRELOAD", SPILLWAY_FAULTS}, {"SPILLWAY_FAULT", fault}});
  return run_spillway(args);
}

// The files that a model or an adapter is made of, with their contents.
std::map<std::string, std::string> result_in(const fs::path& folder) {
  std::map<std::string, std::string> result;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_of_run = name.starts_with("spillway_run") || name.starts_with("report") || name == "plan.json" ||
                           name == "metrics.jsonl" || name == "README.md" || name == ".spillway.json";
    if (entry.is_regular_file() && !is_of_run) result[name] = read_file(entry.path(), 1 << 24);
  }
  return result;
}

}  // namespace

TEST_CASE("a run that is killed while it replaces a result of another kind leaves no mixture of two") {
  const TinyJob job;
  const std::vector<std::string> full = kOneStep + kFull;
  REQUIRE(run_spillway(job.train("adapter", kOneStep)).status == 0);
  REQUIRE(run_spillway(job.train("full", full)).status == 0);
  const auto adapter_files = result_in(job.output("adapter")), full_files = result_in(job.output("full"));
  REQUIRE(adapter_files.contains("adapter_config.json"));
  REQUIRE(full_files.contains("config.json"));

  struct Case {
    std::string earlier, killed_at;
  };
  for (const auto& [earlier, killed_at] : {Case{"full", "/run/adapter_model.safetensors"},
                                           {"full", "/run/adapter_config.json"},
                                           {"adapter", "/run/model.safetensors"},
                                           {"adapter", "/run/config.json"}}) {
    CAPTURE(earlier);
    CAPTURE(killed_at);
    fs::remove_all(job.output("run"));
    fs::copy(job.output(earlier), job.output("run"), fs::copy_options::recursive);
    const bool is_full = earlier == "adapter";
    const std::vector<std::string> more = is_full ? full : kOneStep;
    const Finished killed = run_with_fault("kill:" + killed_at, job.train("run", more));
    CAPTURE(killed.err);
    CHECK(killed.status == 128 + SIGKILL);
    const auto left = result_in(job.output("run"));
    const auto& whole = is_full ? full_files : adapter_files;
    for (const auto& [name, content] : left) {
      CAPTURE(name);
      CHECK(whole.contains(name));
      if (whole.contains(name)) CHECK(whole.at(name) == content);
    }
    // A result that a command may take is there with all that it needs, or not at all.
    if (left.contains("config.json") || left.contains("adapter_config.json")) CHECK(left == whole);

    const Finished resumed = run_spillway(job.train("run", more + TinyJob::kResume));
    CAPTURE(resumed.err);
    CHECK(resumed.status == 0);
    CHECK(result_in(job.output("run")) == whole);
  }
}

TEST_CASE("a checkpoint of an interrupt is not the best of a run that goes on") {
  const TinyJob job;
  const std::vector<std::string> keys = {"--val_set_size",
                                         "8",
                                         "--eval_steps",
                                         "1",
                                         "--save_steps",
                                         "4",
                                         "--max_steps",
                                         "12",
                                         "--lr_scheduler",
                                         "constant",
                                         "--learning_rate",
                                         "0.05",
                                         "--load_best_model_at_end",
                                         "true"};
  REQUIRE(run_spillway(job.train("whole", keys)).status == 0);
  // A signal once the second step is evaluated: each step has two lines.
  const Finished cut = run_with_fault("signal:4:/run/metrics.jsonl", job.train("run", keys));
  CAPTURE(cut.err);
  REQUIRE(cut.status == 130);
  const auto state = nlohmann::json::parse(read_file(job.output("run") / "checkpoint-2/spillway_state.json", 1 << 20));
  CHECK(state["is_evaluated"] == true);
  CHECK(state["stopping"]["best"].is_object());
  CHECK(state["stopping"]["best_saved"].is_null());  // none was due yet
  REQUIRE(run_spillway(job.train("run", keys + TinyJob::kResume)).status == 0);
  for (const char* checkpoint : {"checkpoint-4", "checkpoint-8", "checkpoint-12"}) {
    CAPTURE(checkpoint);
    const auto stopping = [&](const char* name) {
      const fs::path file = job.output(name) / checkpoint / "spillway_state.json";
      return nlohmann::json::parse(read_file(file, 1 << 20))["stopping"];
    };
    if (fs::exists(job.output("whole") / checkpoint)) CHECK(stopping("run") == stopping("whole"));
  }
  CHECK(job.adapter("run") == job.adapter("whole"));
}

TEST_CASE("a line that cannot be written is said, and the run that leaves its model ends with 3") {
  const TinyJob job;
  const Finished ended = run_with_fault("write:/run/metrics.jsonl", job.train("run", {"--max_steps", "3"}));
  CAPTURE(ended.err);
  CHECK(ended.status == 3);
  CHECK(ended.err.find("warning: [" + (job.output("run") / "metrics.jsonl").string() +
                       "] expected a path that can be written, got \"Input/output error\"; check the disk") !=
        std::string::npos);
  CHECK(ended.err.ends_with("; the adapter is whole, that file is not\n"));
  CHECK(read_file(job.output("run") / "metrics.jsonl", 1 << 20).empty());
  CHECK(fs::exists(job.output("run") / "report.json"));
  const Finished plain = run_spillway(job.train("plain", {"--max_steps", "3"}));
  CHECK(plain.status == 0);
  CHECK(job.adapter("run") == job.adapter("plain"));
}

TEST_CASE("a result that cannot be written leaves a checkpoint, from which it is written later") {
  const TinyJob job;
  const std::vector<std::string> unsaved = {"--max_steps", "3", "--save_strategy", "no", "--save_steps", "null"};
  const Finished ended = run_with_fault("write:/run/.adapter_config.json", job.train("run", unsaved));
  CAPTURE(ended.err);
  CHECK(ended.status == 3);
  CHECK(ended.err.find("got \"Input/output error\"") != std::string::npos);
  CHECK_FALSE(fs::exists(job.output("run") / "adapter_config.json"));
  REQUIRE(fs::exists(job.output("run") / "checkpoint-3"));
  const Finished resumed = run_spillway(job.train("run", unsaved + TinyJob::kResume));
  CAPTURE(resumed.err);
  CHECK(resumed.status == 0);
  CHECK(run_spillway(job.train("plain", unsaved)).status == 0);
  CHECK(job.adapter("run") == job.adapter("plain"));
}

#endif
