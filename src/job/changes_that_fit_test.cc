#include "job/changes_that_fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/temporary_folder.h"
#include "config/load.h"
#include "job/suggested_changes.h"
#include "plan/shortage.h"
#include "tests/support/deep_model.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// A full fine-tuning of a tiny model with these lines in its config, as a user would write it. The lines may have their
// own keys for the size of a batch.
config::LoadedConfig load_lines(const std::string& lines, const std::vector<config::ConfigOverride>& overrides = {}) {
  std::string text = fmt::format("output_dir: unused\nlearning_rate: 0.01\n{}", lines);
  if (lines.find("datasets") == std::string::npos) text += "datasets: [{path: unused}]\n";
  if (lines.find("base_model") == std::string::npos) text += "base_model: " + (kGoldenModels / "qwen3").string() + "\n";
  if (lines.find("batch_size") == std::string::npos) text += "micro_batch_size: 4\n";
  if (lines.find("max_") == std::string::npos) text += "sequence_len: 256\n";
  return config::load_config(text, "test", overrides, config::ConfigUse::kTrain);
}

train::Job nearest_job(const std::string& lines, const std::vector<config::ConfigOverride>& overrides = {},
                       const Machine& machine = tiered_machine()) {
  return train::make_job(load_lines(lines, overrides).config, machine);
}

int64_t peak(const train::Job& job, Tier tier, const Machine& machine = tiered_machine()) {
  return nth(train::plan_job(job, machine).plan.peaks, tier).bytes;
}

// False, too, where the config with these overrides is refused.
bool fits(const std::string& lines, const std::vector<config::ConfigOverride>& overrides, const Machine& machine) {
  try {
    return train::plan_job(nearest_job(lines, overrides, machine), machine).plan.fits;
  } catch (const InputError&) {
    return false;
  }
}

// "a: 1, b: 2" as overrides of a config.
std::vector<config::ConfigOverride> overrides_of(std::string text) {
  std::vector<config::ConfigOverride> result;
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
  int searches = 0;

  [[nodiscard]] bool offers(std::string_view text) const {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const std::string& change) { return change.starts_with(text); });
  }
};

// REQUIRES: the job does not fit. Checks that it does with each change, typed as it is advised, that no key of it could
// be left out, and that the fastest comes first.
Refusal refusal_of(const std::string& lines, const Machine& machine = tiered_machine()) {
  CAPTURE(lines);
  const config::LoadedConfig loaded = load_lines(lines);
  const train::Job job = nearest_job(lines, {}, machine);
  train::PlannedJob planned = train::plan_job(job, machine);
  REQUIRE_FALSE(planned.plan.fits);
  const train::ChangesThatFit nearest = train::changes_that_fit(loaded, job, planned.plan, machine);
  planned.context.nearest = nearest.changes;
  planned.context.least = nearest.least;
  CHECK(nearest.changes.size() <= train::kMaxChanges);
  CHECK(nearest.searches <= train::kMaxSearches);
  Refusal refusal{.message = shortage_message(planned.plan, planned.context), .searches = nearest.searches};
  CHECK(std::count(refusal.message.begin(), refusal.message.end(), '\n') == 0);
  double seconds = 0;
  for (const PlanContext::Change& change : nearest.changes) {
    CAPTURE(change.text);
    refusal.changes.push_back(change.text);
    const std::vector<config::ConfigOverride> overrides = overrides_of(change.text);
    const Plan plan = train::plan_job(nearest_job(lines, overrides, machine), machine).plan;
    CHECK(plan.fits);
    for (size_t one = 0; one < overrides.size(); ++one) {
      if (overrides[one].key == "gradient_accumulation_steps") continue;  // belongs to the size of a micro-batch
      std::vector<config::ConfigOverride> others = overrides;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(one));
      CAPTURE(overrides[one].key);
      CHECK_FALSE(fits(lines, others, machine));
    }
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) CHECK(plan.peaks[tier].bytes == change.bytes[tier]);
    if (change.text.find("_len") != std::string::npos || change.text.find("max_length") != std::string::npos) continue;
    CHECK(change.step_seconds >= seconds);
    seconds = change.step_seconds;
  }
  if (!refusal.changes.empty()) CHECK(refusal.message.find("; set " + refusal.changes.front()) != std::string::npos);
  return refusal;
}

std::string device_line(int64_t bytes, const std::string& more) {
  return fmt::format("memory: {{device: {}{}}}\n", bytes, more);
}

}  // namespace

TEST_CASE("a fixed plan that does not fit is told to leave the choice to the planner, or to recompute") {
  const int64_t kept = peak(nearest_job("memory: {plan: fixed}\n"), Tier::kDevice);
  const int64_t again = peak(nearest_job("gradient_checkpointing: true\nmemory: {plan: fixed}\n"), Tier::kDevice);
  const Refusal refusal = refusal_of(device_line((kept + again) / 2, ", plan: fixed"));
  CHECK(refusal.changes.size() == 3);
  CHECK(refusal.searches == 3);
  CHECK(refusal.offers("memory.plan: auto"));
  CHECK(refusal.offers("gradient_checkpointing: true"));
}

TEST_CASE("what the planner has tried already is not advised") {
  const int64_t least = peak(nearest_job(device_line(1, "")), Tier::kDevice);
  const Refusal refusal = refusal_of(device_line(least * 9 / 10, ""));
  CHECK_FALSE(refusal.offers("memory.plan"));
  CHECK_FALSE(refusal.offers("gradient_checkpointing"));
  CHECK_FALSE(refusal.offers("optimizer_offload"));
  CHECK(refusal.offers("memory.device: "));
  CHECK_FALSE(refusal.offers("memory.disk"));  // nothing that could go there is in the way
  CHECK(refusal.offers("micro_batch_size: "));
}

TEST_CASE("a disk that nobody has mentioned is offered with as much as the plan takes of it") {
  Machine laptop = tiered_machine();
  laptop.capacity_bytes[1] = 0;
  const auto planned = [&](const std::string& memory) {
    const std::string lines = "micro_batch_size: 1\nmax_length: 32\nmemory: {device: " + memory + "}\n";
    const config::LoadedConfig loaded = load_lines(lines);
    return std::pair{loaded, train::plan_job(train::make_job(loaded.config, laptop), laptop).plan};
  };
  const int64_t alone = planned("1").second.peaks[0].bytes;
  const int64_t with_disk = planned("1, disk: 512MiB").second.peaks[0].bytes;
  REQUIRE(with_disk < alone);
  const auto [loaded, plan] = planned(fmt::format("{}", (with_disk + alone) / 2));
  REQUIRE_FALSE(plan.fits);
  const auto changes = train::changes_that_fit(loaded, train::make_job(loaded.config, laptop), plan, laptop).changes;
  const auto disk = std::find_if(changes.begin(), changes.end(), [](const PlanContext::Change& change) {
    return change.text.starts_with("memory.disk: ");
  });
  REQUIRE(disk != changes.end());
  CHECK(disk->bytes[2] > 0);
  CHECK(disk->text == fmt::format("memory.disk: {}MiB", div_ceil(disk->bytes[2], kMiB)));
}

TEST_CASE("changes are written with the keys that the config uses") {
  const std::string trl = "per_device_train_batch_size: 4\nmax_length: 256\n";
  const int64_t least = peak(nearest_job(trl + device_line(1, "")), Tier::kDevice);
  const Refusal accelerate = refusal_of(trl + fmt::format("max_memory: {{0: {}}}\n", least * 9 / 10));
  CHECK(accelerate.message.starts_with("[max_memory.0] expected at least "));
  CHECK(accelerate.offers("max_memory.0: "));
  CHECK(accelerate.offers("per_device_train_batch_size: "));
  // Accumulation follows from batch_size.
  const std::string axolotl = "batch_size: 8\nmicro_batch_size: 4\nmax_seq_length: 256\n";
  const Refusal limited = refusal_of(axolotl + fmt::format("gpu_memory_limit: {}KiB\n", least * 9 / 10 / kKiB));
  CHECK(limited.offers("gpu_memory_limit: "));
  CHECK(std::find(limited.changes.begin(), limited.changes.end(), "micro_batch_size: 2") != limited.changes.end());
}

TEST_CASE("a round of completions stays as large as it was where its micro-batches shrink") {
  const std::filesystem::path golden = kGoldenModels.parent_path() / "online_rl";
  const std::string grpo = fmt::format(
      "rl: grpo\nreward_funcs: [think_format_reward]\nnum_generations: 2\nmax_completion_length: 8\n"
      "gradient_accumulation_steps: 2\nbase_model: {}\ndatasets: [{{path: {}}}]\n",
      (golden / "model_qwen3").string(), (golden / "prompts.jsonl").string());
  const auto halved = [&](const std::string& round) {
    const config::LoadedConfig loaded = load_lines(grpo + round + device_line(1, ""));
    const Machine machine = tiered_machine();
    const train::Job job = train::make_job(loaded.config, machine);
    std::string text;
    for (const train::SuggestedChange& suggestion :
         train::suggested_changes(loaded, job, train::plan_job(job, machine).plan, machine)) {
      if (suggestion.grades.front().front().key != "micro_batch_size") continue;
      for (const config::ConfigOverride& change : suggestion.grades.front())
        text += change.key + " " + change.value + "; ";
    }
    return text;
  };
  CHECK(halved("steps_per_generation: 4\n") ==
        "micro_batch_size 2; gradient_accumulation_steps 4; steps_per_generation 8; ");
  // Without that key a round is as many micro-batches as a step is.
  CHECK(halved("") == "micro_batch_size 2; gradient_accumulation_steps 4; ");
}

TEST_CASE("a length that must shrink is that of the key in the config") {
  const std::string small = "memory: {plan: fixed}\n";
  const int64_t half = peak(nearest_job("max_seq_length: 128\nmicro_batch_size: 1\n" + small), Tier::kDevice);
  Machine full = tiered_machine();
  full.capacity_bytes = {half, 0, 0};
  const config::LoadedConfig loaded =
      load_lines(fmt::format("max_seq_length: 256\nmicro_batch_size: 1\ngradient_checkpointing: false\n"
                             "optimizer_offload: none\nactivation_offloading: false\nmemory: {{device: {}}}\n",
                             half));
  const train::Job job = train::make_job(loaded.config, full);
  const Plan plan = train::plan_job(job, full).plan;
  REQUIRE_FALSE(plan.fits);
  const auto changes = train::changes_that_fit(loaded, job, plan, full).changes;
  REQUIRE_FALSE(changes.empty());
  CHECK(changes.back().text == "max_seq_length: 128");
}

TEST_CASE("what no change can make fit ends after a bounded number of plans") {
  const config::LoadedConfig loaded = load_lines("micro_batch_size: 64\nmemory: {device: 4KiB}\n");
  Machine full = tiered_machine();
  full.capacity_bytes = {4 * kKiB, 0, 0};
  const train::Job job = train::make_job(loaded.config, full);
  const Plan plan = train::plan_job(job, full).plan;
  REQUIRE_FALSE(plan.fits);
  const train::ChangesThatFit nearest = train::changes_that_fit(loaded, job, plan, full);
  CHECK(nearest.changes.empty());
  CHECK(nearest.searches < train::kMaxSearches);
  REQUIRE(nearest.least);
  CHECK(nearest.least->text == "micro_batch_size: 1, gradient_accumulation_steps: 64, sequence_len: 64");
  CHECK(nearest.least->bytes[0] > 4 * kKiB);
  CHECK(nearest.least->bytes[0] < plan.peaks[0].bytes);
}

TEST_CASE("state goes to the host, or where there is none of its own to the disk, where the plan may not choose") {
  const std::string fixed = ", plan: fixed";
  const int64_t again = peak(nearest_job("gradient_checkpointing: true\nmemory: {plan: fixed}\n"), Tier::kDevice);
  const std::string checkpointing = "gradient_checkpointing: true\n";
  CHECK(refusal_of(checkpointing + device_line(again - 1, fixed)).offers("optimizer_offload: host"));
  Machine laptop = tiered_machine();
  laptop.capacity_bytes[1] = 0;
  const std::string lines = checkpointing + device_line(again - 1, fixed + ", disk: 64MiB");
  CHECK(refusal_of(lines, laptop).offers("optimizer_offload: disk"));
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

TEST_CASE("what a config keeps on a disk that is too small is left to the plan") {
  Machine laptop = tiered_machine();
  laptop.capacity_bytes = {int64_t{1} << 30, 0, 64 * kKiB};
  const std::string memory = "memory: {disk: 64KiB}\n";
  CHECK(refusal_of("optimizer_offload: disk\n" + memory, laptop).offers("optimizer_offload: auto"));
  CHECK(refusal_of("optimizer_offload: disk\nparameter_offload: disk\n" + memory, laptop)
            .offers("optimizer_offload: auto, parameter_offload: auto"));
  const std::string lora = "adapter: lora\nlora_r: 2\nlora_target_linear: true\n" + memory;
  CHECK(refusal_of("layer_offloading: disk\n" + lora, laptop).offers("layer_offloading: null"));
  CHECK(refusal_of("parameter_offload: disk\n" + lora, laptop).offers("parameter_offload: auto"));
  CHECK(refusal_of("activation_offloading: disk\n" + lora, laptop).offers("activation_offloading: null"));
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
  const config::LoadedConfig loaded = load_lines(lines);
  const train::Job job = nearest_job(lines);
  const Plan plan = train::plan_job(job, tiered_machine()).plan;
  REQUIRE_FALSE(plan.fits);
  const std::string raised = fmt::format("memory.device: {}MiB", div_ceil(plan.peaks[0].bytes, kMiB));
  const auto advises_memory = [&](int64_t free) {
    Machine machine = tiered_machine();
    machine.capacity_bytes[0] = free;
    const auto changes = train::changes_that_fit(loaded, job, plan, machine).changes;
    for (const PlanContext::Change& change : changes) CHECK(change.bytes[0] <= free);
    return std::any_of(changes.begin(), changes.end(),
                       [&](const PlanContext::Change& change) { return change.text == raised; });
  };
  CHECK(advises_memory(int64_t{1} << 30));
  CHECK_FALSE(advises_memory(plan.peaks[0].bytes - 1));
}

TEST_CASE("what reading past the page cache takes is asked for, and never taken off the budget that is shown") {
  Machine small = tiered_machine();
  small.capacity_bytes[1] = 1;  // less than the model's files
  const std::string lines =
      "layer_offloading: disk\nadapter: lora\nlora_r: 2\nlora_target_linear: true\n"
      "activation_offloading: true\nbf16: false\nmemory: {plan: fixed, host: 1MiB, disk: 64MiB}\n";
  train::Job job = nearest_job(lines);
  const train::PlannedJob planned = train::plan_job(job, small);
  REQUIRE(planned.direct_files);
  REQUIRE_FALSE(planned.plan.fits);
  CHECK(planned.context.budget.host == job.budget.host);
  const int64_t needed = planned.plan.peaks[1].bytes + TierOptions::staging_bytes();
  CHECK(planned.plan.missing_bytes[1] == needed - *job.budget.host);
  CHECK(shortage_message(planned.plan, planned.context)
            .starts_with("[memory.host] expected at least " + format_bytes_up(needed)));
  const auto changes = train::changes_that_fit(load_lines(lines), job, planned.plan, tiered_machine()).changes;
  const std::string advice = fmt::format("memory.host: {}MiB", div_ceil(needed, kMiB));
  CHECK(std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.text == advice; }));

  job.budget.host = needed;
  CHECK(train::plan_job(job, small).plan.fits);
  --*job.budget.host;
  CHECK_FALSE(train::plan_job(job, small).plan.fits);
}

TEST_CASE("a budget far too small for any one change gets changes of several keys, each with other keys") {
  Machine laptop = tiered_machine();
  laptop.capacity_bytes[1] = 0;
  const auto least = [&](const std::string& lines) {
    return peak(nearest_job(lines, {}, laptop), Tier::kDevice, laptop);
  };
  const std::string disk = ", disk: 512MiB";
  const int64_t alone = least(device_line(1, "")), with_disk = least(device_line(1, disk));
  const int64_t rows = least("micro_batch_size: 1\n" + device_line(1, ""));
  const int64_t both = least("micro_batch_size: 1\n" + device_line(1, disk));
  REQUIRE(std::min(with_disk, rows) < alone);
  REQUIRE(both < std::min(with_disk, rows));
  // Within the budget.
  const Refusal within = refusal_of(device_line((both + std::min(with_disk, rows)) / 2, ""), laptop);
  CHECK(within.changes.size() == train::kMaxChanges);
  CHECK(within.offers("memory.device: "));  // alone
  CHECK(within.offers("memory.disk: "));
  // Nothing keeps this budget.
  const std::string line = device_line(alone / 20, "");
  const Refusal small = refusal_of(line, laptop);
  CHECK(small.changes.size() == train::kMaxChanges);
  const train::Job job = nearest_job(line, {}, laptop);
  const auto again = train::changes_that_fit(load_lines(line), job, train::plan_job(job, laptop).plan, laptop).changes;
  REQUIRE(again.size() == small.changes.size());
  for (size_t i = 0; i < again.size(); ++i) CHECK(again[i].text == small.changes[i]);
}

TEST_CASE("where device and host are one RAM, nothing is advised that goes to the host") {
  Machine laptop = tiered_machine();
  laptop.capacity_bytes[1] = 0;
  const std::string rows = "micro_batch_size: 1\nmax_length: 32\n";
  const auto device_bytes = [&](const std::string& lines) {
    return peak(nearest_job(rows + lines, {}, laptop), Tier::kDevice, laptop);
  };
  // Budgets that a host budget of any size would meet.
  const int64_t alone = device_bytes(device_line(1, ""));
  const int64_t beside = device_bytes(device_line(1, ", host: 512MiB"));
  REQUIRE(beside < alone);
  const int64_t between = (alone + beside) / 2;
  for (const std::string more : {"", ", host: 4KiB", ", disk: 512MiB", ", plan: fixed"}) {
    const std::string lines = rows + device_line(more == ", disk: 512MiB" ? beside / 2 : between, more);
    const Refusal refusal = refusal_of(lines, laptop);
    CHECK_FALSE(refusal.changes.empty());
    for (const std::string& change : refusal.changes) CHECK(change.find("host") == std::string::npos);
  }
}

TEST_CASE("bytes missing on the device may be asked of a host budget that is there") {
  const std::string lines = "micro_batch_size: 1\nmax_length: 32\n";
  const int64_t alone = peak(nearest_job(lines + device_line(1, ", host: 4KiB")), Tier::kDevice);
  const int64_t beside = peak(nearest_job(lines + device_line(1, ", host: 512MiB")), Tier::kDevice);
  REQUIRE(beside < alone);
  CHECK(refusal_of(lines + device_line((alone + beside) / 2, ", host: 4KiB")).offers("memory.host: "));
}

TEST_CASE("what nothing can make fit says what the least is, and in which tier") {
  Machine full = tiered_machine();
  full.capacity_bytes = {4 * kKiB, 0, 0};
  const std::string message = refusal_of("memory: {device: 4KiB}\n", full).message;
  CHECK(message.find("; no change was found that fits; the least, device ") != std::string::npos);
  CHECK(message.find(", is with micro_batch_size: 1, gradient_accumulation_steps: 4, sequence_len: 64: take ") !=
        std::string::npos);
}

TEST_CASE("feed-forward parts in tiles are offered where the activations of a layer are what does not fit") {
  const std::string lines =
      "micro_batch_size: 1\nmax_length: 512\nadapter: lora\nlora_r: 2\ngradient_checkpointing: true\n"
      "overrides_of_model_config: {intermediate_size: 1024}\n";
  Machine machine = tiered_machine();
  machine.capacity_bytes = {0, 0, 0};
  const auto least = [&](const std::vector<config::ConfigOverride>& overrides) {
    return peak(nearest_job(lines + device_line(1, ""), overrides, machine), Tier::kDevice, machine);
  };
  const int64_t whole = least({}), tiles = least(overrides_of("tiled_mlp: true"));
  REQUIRE(tiles < whole / 2);
  const Refusal refusal = refusal_of(lines + device_line((whole + tiles) / 2, ""), machine);
  CAPTURE(refusal.message);
  CHECK(std::find(refusal.changes.begin(), refusal.changes.end(), "tiled_mlp: true") != refusal.changes.end());
}

TEST_CASE("weights in 4 bits and moments in 8 bits are offered where nothing else fits, as something else to train") {
  const std::string rows = "micro_batch_size: 1\nmax_length: 64\ntiled_mlp: true\n";  // which would be offered first
  const std::string adapter = rows + "adapter: lora\nlora_r: 2\nlora_target_linear: true\n";
  // Its feed-forward parts have the 4,096 elements from which on moments are kept in 8 bits.
  const TemporaryFolder model;
  write_deep_model(model.path(), 2, 256);
  const std::string full = rows + "base_model: " + model.path().string() + "\n";
  const struct {
    std::string lines, change, trains;
  } cases[] = {{adapter, "load_in_4bit: true", "over weights in 4 bits"},
               {adapter + "load_in_8bit: true\n", "load_in_8bit: false, load_in_4bit: true", "over weights in 4 bits"},
               {full + "optimizer: adamw_torch\n", "optimizer: adamw_8bit", "with moments in 8 bits"},
               {full + "optimizer: paged_adamw_32bit\n", "optimizer: paged_adamw_8bit", "with moments in 8 bits"}};
  for (const auto& one : cases) {
    CAPTURE(one.lines);
    Machine machine = tiered_machine();
    machine.capacity_bytes = {0, 0, 0};
    const auto least = [&](const std::vector<config::ConfigOverride>& overrides) {
      return peak(nearest_job(one.lines + device_line(1, ""), overrides, machine), Tier::kDevice, machine);
    };
    const int64_t plain = least({}), coded = least(overrides_of(one.change));
    CAPTURE(plain);
    CAPTURE(coded);
    REQUIRE(coded < plain - kMiB / 128);
    machine.capacity_bytes[0] = (plain + coded) / 2;
    const Refusal refusal = refusal_of(one.lines + device_line((plain + coded) / 2, ""), machine);
    CAPTURE(refusal.message);
    CHECK(refusal.changes == std::vector<std::string>{one.change});
    CHECK(refusal.message.ends_with("; set " + one.change + ", which trains something else: " + one.trains));
    // Where the machine has more memory, that is all that is said.
    Machine larger = machine;
    larger.capacity_bytes[0] = int64_t{1} << 30;
    const Refusal with_memory = refusal_of(one.lines + device_line((plain + coded) / 2, ""), larger);
    CHECK(with_memory.offers("memory.device: "));
    CHECK_FALSE(with_memory.offers(one.change));
  }
}
