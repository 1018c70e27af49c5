// Holds what a run says of the experts that its tokens reached against the routes of transformers.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/report_json.h"
#include "report/run_record.h"
#include "tests/support/mode_jobs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

constexpr int64_t kExperts = 8, kMixtures = 2;     // of a layer, and layers that have them
constexpr int64_t kProjectionBytes = 4 * 20 * 32;  // of an expert's three
constexpr const char* kRoutedModel = "qwen3_moe";

// A micro-batch of at most four tokens, and how many experts transformers chooses for them without an adapter.
struct RoutedBatch {
  FlatBatch batch;
  int64_t reached = 0;
};

std::vector<RoutedBatch> routed_batches() {
  std::vector<RoutedBatch> result;
  for (const json& one : read_json(kGoldenModels / kRoutedModel / "golden_routes.json")) {
    const json sequence = {{"input_ids", one["input_ids"]}, {"labels", one["input_ids"]}};
    RoutedBatch& routed = result.emplace_back(RoutedBatch{.batch = FlatBatch(json::array({sequence}))});
    for (const json& layer : one["reached"]) routed.reached += std::ssize(layer);
  }
  return result;
}

int64_t reached_by(const std::vector<RoutedBatch>& batches) {
  int64_t sum = 0;
  for (const RoutedBatch& one : batches) sum += one.reached;
  return sum;
}

// Links of this rate are slower than all computation, or take no time beside it.
Machine machine_with(double bytes_per_second) {
  Machine machine = ModeJobs({.threads = 1}, kRoutedModel).machine();
  machine.link_bytes_per_second.fill(bytes_per_second);
  return machine;
}
constexpr double kSlow = 1e5, kFast = 1e13;

// Trains a step with an adapter on attention that changes nothing yet, and returns the report's "experts".
json experts_of_run(const std::string& lines, const Machine& machine, const std::vector<RoutedBatch>& batches) {
  const ModeJobs jobs({.adapter = "adapter", .start = LoraStart::kUniform, .threads = 1}, kRoutedModel);
  train::Job job = jobs.job(lines + kPlainJob);
  job.graph.model.tokens = 4;
  job.graph.model.reports_expert_load = true;
  const train::Job same = job;
  std::optional<train::JobTiers> tiers;
  TinyTraining training(std::move(job), machine, [&](const train::PlannedJob& planned) {
    REQUIRE(planned.plan.fits);
    return tiers.emplace(same, planned, cpu_device()).options();
  });
  train::TrainingSession& session = training.session();
  session.begin_step(0, 0, std::ssize(batches));
  train::MetricSums sums;
  for (size_t i = 0; i < batches.size(); ++i) {
    (void)session.micro_step(batches[i].batch.batch(), 1, static_cast<int64_t>(i));
    REQUIRE(session.model_metrics().back().key == kExpertsReached);
    CHECK(session.observed().back().front() == batches[i].reached);
    sums.add(kExpertsReached, session.observed().back().front());
  }
  const train::Metric metrics[] = {{kExpertsReached, sums.sum(kExpertsReached)}};
  RunRecord record(training.plan().program, 1);
  record.begin_step(session.executor().lanes());
  record.end_step(1, 0, 1, session.executor().lanes());
  record.add_step({.step = 1, .metrics = metrics});
  return json::parse(
      run_report(session.planned(), machine, session.executor(), record.so_far(), record, 0, {}).at("experts").dump());
}

json experts(int64_t reached, int64_t loads, int64_t projections) {
  return {{"reached", reached}, {"loads", loads}, {"load_bytes", projections * kProjectionBytes}, {"host_computed", 0}};
}

}  // namespace

TEST_CASE("the report counts as reached and loaded those experts that transformers routes tokens to") {
  const std::vector<RoutedBatch> batches = routed_batches();
  const int64_t reached = reached_by(batches);
  REQUIRE(3 * reached < 2 * kExperts * kMixtures * std::ssize(batches));
  for (const std::string place : {"host", "disk"}) {
    CAPTURE(place);
    const std::string lines = fmt::format("expert_offload: {}\n", place);
    // Forward and backward.
    CHECK(experts_of_run(lines, machine_with(kSlow), batches) == experts(reached, 2 * reached, 2 * reached * 3));
    // The backward pass computes gates and ups again.
    CHECK(experts_of_run(lines + "gradient_checkpointing: true\n", machine_with(kSlow), batches) ==
          experts(reached, 3 * reached, (2 * 3 + 2) * reached));
  }
}

TEST_CASE("loads that do not wait for the router are counted for all experts, and none where experts stay") {
  const std::vector<RoutedBatch> batches = routed_batches();
  const int64_t reached = reached_by(batches), all = kExperts * kMixtures * std::ssize(batches);
  CHECK(experts_of_run("expert_offload: host\n", machine_with(kFast), batches) ==
        experts(reached, 2 * all, 2 * all * 3));
  CHECK(experts_of_run("", machine_with(kSlow), batches) == experts(reached, 0, 0));
}
