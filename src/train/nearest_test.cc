#include "train/nearest.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/math.h"
#include "tests/support/tiny_training.h"
#include "train/config_load.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

Machine tiered_machine() {
  Machine machine{.threads = 1};
  machine.capacity_bytes = {int64_t{1} << 30, int64_t{1} << 30, int64_t{1} << 30};
  machine.link_bytes_per_second.fill(2e8);
  return machine;
}

// A full fine-tuning of a tiny model with these lines in its config, as `train` makes it.
train::Job job_of(const std::string& lines, const std::vector<train::ConfigOverride>& overrides = {}) {
  const std::string text = fmt::format(
      "base_model: {}\noutput_dir: unused\nlearning_rate: 0.01\ndatasets: [{{path: unused}}]\n"
      "micro_batch_size: 4\nsequence_len: 256\n{}",
      (kGoldenModels / "qwen3").string(), lines);
  return train::make_job(train::load_config(text, "test", overrides, train::ConfigUse::kTrain).config,
                         tiered_machine());
}

int64_t peak(const train::Job& job, Tier tier) {
  return train::plan_job(job, tiered_machine()).plan.peaks[static_cast<size_t>(tier)].bytes;
}

// "a: 1, b: 2" as overrides of a config.
std::vector<train::ConfigOverride> overrides_of(std::string text) {
  std::vector<train::ConfigOverride> result;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(", "), text.size()), colon = text.find(": ");
    result.push_back({text.substr(0, colon), text.substr(colon + 2, comma - colon - 2)});
    text.erase(0, comma + 2);
  }
  return result;
}

struct Refusal {
  std::vector<std::string> changes;
  std::string message;

  [[nodiscard]] bool offers(std::string_view text) const {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const std::string& change) { return change.starts_with(text); });
  }
};

// REQUIRES: the job does not fit. Checks that it does with each change, as a user would write it.
Refusal refusal_of(const std::string& lines) {
  CAPTURE(lines);
  const train::Job job = job_of(lines);
  train::PlannedJob planned = train::plan_job(job, tiered_machine());
  REQUIRE_FALSE(planned.plan.fits);
  planned.context.nearest = train::nearest_changes(job, planned.plan, tiered_machine());
  CHECK(planned.context.nearest.size() <= 3);
  Refusal refusal{.message = shortage_message(planned.plan, planned.context)};
  CHECK(std::count(refusal.message.begin(), refusal.message.end(), '\n') == 0);
  for (const PlanContext::Change& change : planned.context.nearest) {
    CAPTURE(change.text);
    refusal.changes.push_back(change.text);
    const Plan plan = train::plan_job(job_of(lines, overrides_of(change.text)), tiered_machine()).plan;
    CHECK(plan.fits);
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) CHECK(plan.peaks[tier].bytes == change.bytes[tier]);
  }
  if (!refusal.changes.empty()) CHECK(refusal.message.ends_with("; set " + refusal.changes.front()));
  return refusal;
}

std::string device_line(int64_t bytes, const std::string& more) {
  return fmt::format("memory: {{device: {}{}}}\n", bytes, more);
}

}  // namespace

TEST_CASE("a fixed plan that does not fit is told to leave the choice to the planner, or to recompute") {
  const int64_t kept = peak(job_of("memory: {plan: fixed}\n"), Tier::kDevice);
  const int64_t again = peak(job_of("gradient_checkpointing: true\nmemory: {plan: fixed}\n"), Tier::kDevice);
  const Refusal refusal = refusal_of(device_line((kept + again) / 2, ", plan: fixed"));
  REQUIRE(refusal.changes.size() == 3);
  CHECK(refusal.changes[0] == "memory.plan: auto");
  CHECK(refusal.changes[1] == "gradient_checkpointing: true");
}

TEST_CASE("what the planner has tried already is not advised") {
  const int64_t least = peak(job_of(device_line(1, "")), Tier::kDevice);
  const Refusal refusal = refusal_of(device_line(least * 9 / 10, ""));
  CHECK_FALSE(refusal.offers("memory.plan"));
  CHECK_FALSE(refusal.offers("gradient_checkpointing"));
  CHECK_FALSE(refusal.offers("optimizer_offload"));
  CHECK(refusal.offers("memory.device: "));
  CHECK(refusal.offers("micro_batch_size: "));
}

TEST_CASE("state goes to the disk only where there is a budget of disk") {
  const std::string fixed = ", plan: fixed";
  const int64_t again = peak(job_of("gradient_checkpointing: true\nmemory: {plan: fixed}\n"), Tier::kDevice);
  const std::string checkpointing = "gradient_checkpointing: true\n";
  CHECK_FALSE(refusal_of(checkpointing + device_line(again - 1, fixed)).offers("optimizer_offload"));
  CHECK(refusal_of(checkpointing + device_line(again - 1, fixed + ", disk: 64MiB")).offers("optimizer_offload: disk"));
}

TEST_CASE("bytes that are missing on the host are asked of the host, on the disk of the disk") {
  const std::string state = "optimizer_offload: ";
  const Refusal host = refusal_of(state + "host\nmemory: {plan: fixed, host: 4KiB}\n");
  CHECK(host.message.starts_with("[memory.host] expected at least "));
  CHECK(host.offers("memory.host: "));
  CHECK_FALSE(host.offers("memory.device"));
  const Refusal disk = refusal_of(state + "disk\nmemory: {plan: fixed, disk: 4KiB}\n");
  CHECK(disk.message.starts_with("[memory.disk] expected at least "));
  CHECK(disk.offers("memory.disk: "));
}

TEST_CASE("several tiers that are too small are named in one message, and raised together") {
  const Refusal refusal = refusal_of("optimizer_offload: host\nmemory: {plan: fixed, device: 4KiB, host: 4KiB}\n");
  CHECK(refusal.message.starts_with("[memory.device, memory.host] expected at least "));
  CHECK(refusal.message.find(" missing), ") != std::string::npos);
  REQUIRE(refusal.changes.size() >= 1);
  CHECK(refusal.changes.front().starts_with("memory.device: "));
  CHECK(refusal.changes.front().find(", memory.host: ") != std::string::npos);
}

TEST_CASE("memory that the machine does not have is not advised") {
  const std::string lines = "gradient_checkpointing: true\nmemory: {plan: fixed, device: 4KiB}\n";
  const train::Job job = job_of(lines);
  const Plan plan = train::plan_job(job, tiered_machine()).plan;
  REQUIRE_FALSE(plan.fits);
  const auto advises_memory = [&](int64_t free) {
    Machine machine = tiered_machine();
    machine.capacity_bytes[0] = free;
    const auto changes = train::nearest_changes(job, plan, machine);
    return std::any_of(changes.begin(), changes.end(),
                       [](const PlanContext::Change& change) { return change.text.starts_with("memory.device: "); });
  };
  CHECK(advises_memory(int64_t{1} << 30));
  CHECK_FALSE(advises_memory(plan.peaks[0].bytes - 1));
}

TEST_CASE("what reading past the page cache takes is asked for, and never taken off the budget that is shown") {
  Machine small = tiered_machine();
  small.capacity_bytes[1] = 1;  // less than the model's files
  train::Job job = job_of(
      "layer_offloading: disk\nadapter: lora\nlora_r: 2\nlora_target_linear: true\n"
      "activation_offloading: true\nbf16: false\nmemory: {plan: fixed, host: 1MiB, disk: 64MiB}\n");
  const train::PlannedJob planned = train::plan_job(job, small);
  REQUIRE(planned.direct_files);
  REQUIRE_FALSE(planned.plan.fits);
  CHECK(planned.context.budget.host == job.budget.host);
  const int64_t needed = planned.plan.peaks[1].bytes + TierOptions::staging_bytes();
  CHECK(planned.plan.missing_bytes[1] == needed - *job.budget.host);
  CHECK(shortage_message(planned.plan, planned.context)
            .starts_with("[memory.host] expected at least " + format_bytes(needed)));
  const auto changes = train::nearest_changes(job, planned.plan, tiered_machine());
  const std::string advice = fmt::format("memory.host: {}MiB", div_ceil(needed, kMiB));
  CHECK(std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.text == advice; }));

  job.budget.host = needed;
  CHECK(train::plan_job(job, small).plan.fits);
  --*job.budget.host;
  CHECK_FALSE(train::plan_job(job, small).plan.fits);
}
