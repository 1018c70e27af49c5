// Tests the output of the real program for a job: its report, and its error if the job cannot run.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

// The memory that a program may take outside of its arenas: libraries, code, the tokenizer, and before training the
// three arrays of 64 MiB with which it measures a machine that it does not know yet. AddressSanitizer keeps up to 256
// MiB of freed memory to detect late uses.
constexpr int64_t kMeasuring = 3 * 64;
#if SPILLWAY_REPLACES_MALLOC
constexpr int64_t kOutsideArenas = (60 + kMeasuring + 256) << 20;
#else
constexpr int64_t kOutsideArenas = (60 + kMeasuring) << 20;
#endif

}  // namespace

TEST_CASE("gradients without a finite norm end a run with exit 2 at that step, whatever the loss") {
  const TinyJob job;
  const Finished run = run_spillway(job.train("run", {"--lora_alpha", "1e38"}));
  CAPTURE(run.err);
  CHECK(run.status == 2);
  CHECK(run.err.find("[step 1] expected a loss and gradients that are finite") != std::string::npos);
  CHECK(job.losses("run").size() == 1);
  CHECK_FALSE(fs::exists(job.output("run") / "adapter_model.safetensors"));
}

TEST_CASE("the report of a run measures what was planned, and plan says the same") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--memory.plan", "fixed", "--memory.device", "512MiB"})).status == 0);
  const nlohmann::json report = nlohmann::json::parse(read_file(job.output("run") / "report.json", 1 << 20));
  const nlohmann::json& device = report["tiers"]["device"];
  CHECK(device["budget_bytes"] == 512 << 20);
  CHECK(device["planned_peak_bytes"] == device["measured_peak_bytes"]);
  CHECK(report["process"]["outside_arenas_bytes"] < kOutsideArenas);
  for (const char* lane :
       {"compute", "host_to_device", "device_to_host", "disk_read", "disk_write", "host_compute", "peer"}) {
    CHECK(report["lanes"][lane].contains("busy_seconds"));
  }
  CHECK(report["steps"] == TinyJob::kSteps);
  CHECK_FALSE(report["frontier"].empty());
  std::vector<std::string> args = job.train("run", {"--memory.plan", "fixed", "--memory.device", "512MiB", "--json"});
  args[0] = "plan";
  const nlohmann::json plan = nlohmann::json::parse(run_spillway(args).out);
  CHECK(plan["fits"] == true);
  CHECK(plan["tiers"]["device"]["peak_bytes"] == device["planned_peak_bytes"]);
}

TEST_CASE("a budget that cannot be met exits 2 with one line and writes nothing") {
  const TinyJob job;
  const Finished refused = run_spillway(job.train("none", {"--memory.device", "10KiB", "--device", "cpu"}));
  CHECK(refused.status == 2);
  // A command that measures says so: the first on a computer, and a later one where the computer was busy before.
  std::istringstream lines(refused.err);
  std::vector<std::string> said;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("measuring ")) said.push_back(line);
  CAPTURE(refused.err);
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with("[memory.device] expected at least "));
  CHECK_FALSE(fs::exists(job.output("none")));
}

TEST_CASE("what a config is taken to mean is said once, however many changes of it are planned") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("none", {"--max_steps", "1"})).status == 0);
  const Finished refused =
      run_spillway(job.train("none", {"--memory.device", "10KiB", "--special_tokens.pad_token", "<pad>"}));
  CHECK(refused.status == 2);
  CAPTURE(refused.err);
  const std::string note = "'<pad>' is new";
  const size_t first = refused.err.find(note);
  REQUIRE(first != std::string::npos);
  CHECK(refused.err.find(note, first + 1) == std::string::npos);
}

TEST_CASE("the page of a job that does not fit is written, with what would fit") {
  const TinyJob job;
  const std::string page = job.output("page.html").string();
  std::vector<std::string> args = job.train("none", {"--memory.device", "10KiB", "--html", page});
  args[0] = "plan";
  const Finished refused = run_spillway(args);
  CHECK(refused.status == 2);
  CHECK(refused.out.find("What would fit:") != std::string::npos);
  CHECK(read_file(page, 1 << 24).find("\"shortage\":{\"missing\":{\"device\":") != std::string::npos);
}
