#include "report/report_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/index.h"
#include "report/report_html.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

Machine machine_with_host() {
  Machine machine{.threads = 2};
  machine.link_bytes_per_second.fill(1e9);
  return machine;
}

// A job whose saved activations go to the host tier, with two micro-batches per step.
train::Job job_with_host() {
  train::Job job = tiny_job(kGoldenModels / "llama2", {.activations = ActivationPolicy::kHost});
  job.title = "llama2 · full";
  job.budget = {.device = int64_t{64} << 20, .host = int64_t{32} << 20};
  job.config.batches.gradient_accumulation_steps = 2;
  return job;
}

// Returns the report of `steps` steps of such a job.
nlohmann::ordered_json report_of_run(int64_t steps) {
  const train::Job job = job_with_host();
  const Machine machine = machine_with_host();
  std::vector<FrontierPoint> frontier;
  train::PlannedJob planned =
      train::plan_job(job, machine, train::build_training_graph(*job.model, job.graph), &frontier);
  planned.context.frontier = frontier;
  ThreadPool pool(2);
  train::TrainingSession session(job, planned, pool, {.traced_micro_steps = 2});
  train::InitialState(job).load(job, planned.training, session.store());
  const std::vector<FlatBatch> batches = all_micro_batches();
  RunRecord record(planned.plan.program, steps);
  for (int64_t step = 0; step < steps; ++step) {
    record.begin_step(session.executor().lanes());
    session.start_trace();
    session.begin_step(1e-3, step);
    double loss = 0;
    for (const int64_t i : {0, 1}) loss += session.micro_step(nth(batches, i).batch(), 0.01f, i);
    (void)session.update();
    session.stop_trace();
    record.end_step(step + 1, loss, 1.0 + static_cast<double>(step), session.executor().lanes());
  }
  return run_report(planned, machine, session.executor(),
                    {.steps = steps, .tokens = 96 * steps, .step_seconds_sum = 0.5, .median_step_seconds = 0.1}, record,
                    int64_t{1} << 30);
}

}  // namespace

TEST_CASE("the report of a plan that does not fit says what is missing and what would fit") {
  train::Job job = job_with_host();
  job.budget.device = 4096;
  train::PlannedJob planned = train::plan_job(job, machine_with_host());
  REQUIRE_FALSE(planned.plan.fits);
  planned.context.nearest.push_back({.text = "memory.device: 8MiB", .bytes = {5, 6, 7}, .step_seconds = 0.5});
  const auto report = plan_report(planned, machine_with_host());
  CHECK(report["shortage"]["missing"] == nlohmann::ordered_json({{"device", planned.plan.peaks[0].bytes - 4096}}));
  CHECK(report["shortage"]["nearest"][0]["change"] == "memory.device: 8MiB");
  CHECK(report["shortage"]["nearest"][0]["step_seconds"] == 0.5);
  CHECK(report["shortage"]["nearest"][0]["host_bytes"] == 6);
  CHECK_FALSE(report["memory_over_step"]["device"]["kinds"].empty());
  CHECK(report_html(report).find("memory.device: 8MiB") != std::string::npos);
  // A plan that fits has none.
  CHECK_FALSE(
      plan_report(train::plan_job(job_with_host(), machine_with_host()), machine_with_host()).contains("shortage"));
}

TEST_CASE("a run's report has every field that scripts rely on") {
  const auto report = report_of_run(3);
  CHECK(report["tiers"].size() == 3);
  for (const char* tier : {"device", "host", "disk"}) {
    CAPTURE(tier);
    const auto& numbers = report["tiers"][tier];
    CHECK(numbers["budget_bytes"].is_number_integer());
    CHECK(numbers["planned_peak_bytes"] == numbers["measured_peak_bytes"]);
  }
  CHECK(report["tiers"]["device"]["budget_bytes"] == 64 << 20);
  CHECK(report["tiers"]["host"]["planned_peak_bytes"] > 0);
  CHECK(report["tiers"]["disk"]["planned_peak_bytes"] == 0);
  CHECK(report["process"]["peak_rss_bytes"] == 1 << 30);
  CHECK(report["process"]["outside_arenas_bytes"] < 1 << 30);
  CHECK(report["lanes"].size() == 7);
  for (const char* lane :
       {"compute", "host_to_device", "device_to_host", "disk_read", "disk_write", "host_compute", "peer"}) {
    CAPTURE(lane);
    CHECK(report["lanes"][lane]["bytes"].is_number_integer());
    CHECK(report["lanes"][lane]["busy_seconds"].is_number_float());
  }
  CHECK(report["lanes"]["host_to_device"]["bytes"] > 0);
  CHECK(report["lanes"]["compute"]["busy_seconds"] > 0);
  CHECK(report["lanes"]["disk_read"]["bytes"] == 0);
  CHECK(report["step"]["predicted_seconds"] > 0);
  CHECK(report["step"]["median_seconds"] == 0.1);
  CHECK(report["step"]["compute_stall_seconds"] >= 0);
  CHECK(report["tokens_per_second"] == doctest::Approx(576));
  CHECK(report["steps"] == 3);
  CHECK(report["state"] == "done");
  CHECK(report["cpu_share"].is_null());
  CHECK(report["ended_early"].is_null());
  CHECK(report["weights_of_step"] == 3);
}

TEST_CASE("a run's report has what its pictures need") {
  const auto report = report_of_run(3);
  CHECK(report["loss"].size() == 3);
  CHECK(report["choices"]["blocks"].size() == 2);
  CHECK(report["choices"]["blocks"][0]["saved"]["product"] == "host");
  CHECK(report["frontier"].size() > 0);
  for (const auto& row : report["moved_bytes_per_step"])
    if (row["kind"] == "saved_activation") CHECK(row["device_to_host"] > 0);
  CHECK(report["memory_over_step"].size() == 2);
  const auto& host = report["memory_over_step"]["host"];
  CHECK(host["kinds"]["saved_activation"].size() == host["measured_seconds"].size());
  const auto& timeline = report["timeline"];
  CHECK(timeline["measured"]["step"] == 2);  // the median of 1, 2 and 3 seconds
  CHECK(timeline["measured"]["seconds"] > 0);
  CHECK(timeline["measured"]["start"].size() == timeline["instructions"].size());
  CHECK(timeline["predicted"]["duration"].size() == timeline["instructions"].size());
}

TEST_CASE("a report of a plan alone has nulls where a run measures") {
  const train::Job job = job_with_host();
  const train::PlannedJob planned = train::plan_job(job, machine_with_host());
  const auto report = plan_report(planned, machine_with_host());
  CHECK(report["state"].is_null());
  CHECK(report["process"].is_null());
  CHECK(report["step"]["median_seconds"].is_null());
  CHECK(report["tiers"]["device"]["measured_peak_bytes"].is_null());
  CHECK(report["timeline"]["measured"].is_null());
  CHECK(report["lanes"].size() == 7);
  CHECK_FALSE(report["memory_over_step"]["device"].contains("measured_seconds"));
}

TEST_CASE("a printed report reads back, with its long lists on one line each") {
  const auto report = report_of_run(1);
  const std::string text = print_report(report);
  CHECK(nlohmann::ordered_json::parse(text) == nlohmann::ordered_json::parse(report.dump()));
  CHECK(std::count(text.begin(), text.end(), '\n') < 400);
}

TEST_CASE("a long loss curve is thinned to means, and its end stays") {
  std::vector<LossPoint> curve;
  for (int64_t step = 1; step <= 2500; ++step) curve.push_back({step, step <= 1250 ? 2.0 : 1.0});
  const std::vector<LossPoint> few = thinned(curve, 10);
  REQUIRE(few.size() == 10);
  CHECK(few.front().loss == 2.0);
  CHECK(few.back().loss == 1.0);
  CHECK(few.back().step == 2500);
  CHECK(thinned(curve, 9999).size() == 2500);
  CHECK(thinned({}, 10).empty());
}
