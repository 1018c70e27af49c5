// Experts with homes of their own: what streams, and what the device then holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "config/load.h"
#include "io/file.h"
#include "job/planned_job.h"
#include "job/suggested_changes.h"
#include "plan/expert_slots.h"
#include "plan/search.h"
#include "plan/shown_homes.h"
#include "plan/testing/random_plan.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kExpertLayers = 4, kExperts = 32, kExpertWidth = 64, kExpertInner = 96;
constexpr int64_t kExpertBytes = kExpertLayers * kExperts * 3 * kExpertWidth * kExpertInner * 2;  // in bf16

// A folder of a mixture without weights, which plans do not need.
class MixtureFolder {
 public:
  MixtureFolder() {
    nlohmann::json config = read_json(kGoldenModels / "qwen3_moe" / "config.json");
    config["num_hidden_layers"] = kExpertLayers;
    config["num_local_experts"] = kExperts;
    config["hidden_size"] = kExpertWidth;
    config["moe_intermediate_size"] = kExpertInner;
    config["mlp_only_layers"] = nlohmann::json::array();
    config["decoder_sparse_step"] = 1;
    write_file(folder_.path() / "config.json", config.dump());
  }

  [[nodiscard]] train::Job job(std::string_view lines) const { return job_of(folder_.path(), lines); }
  [[nodiscard]] config::LoadedConfig loaded(std::string_view lines) const { return loaded_of(folder_.path(), lines); }
  [[nodiscard]] static train::Job job_of(const std::filesystem::path& model, std::string_view lines) {
    return train::make_job(loaded_of(model, lines).config, tiered_machine());
  }

 private:
  [[nodiscard]] static config::LoadedConfig loaded_of(const std::filesystem::path& model, std::string_view lines) {
    const std::string text = fmt::format(
        "base_model: {}\noutput_dir: unused\nlearning_rate: 1\nsequence_len: 32\ndatasets: [{{path: unused}}]\n{}",
        model.string(), lines);
    return config::load_config(text, "test", {}, config::ConfigUse::kTrain);
  }

  TemporaryFolder folder_;
};

constexpr std::string_view kFrozen = "adapter: lora\nlora_r: 4\nlora_target_modules: [q_proj]\n";

Plan plan_in(const MixtureFolder& folder, const std::string& lines) {
  return train::plan_job(folder.job(lines), tiered_machine()).plan;
}

// The training graph of a job, and builders of its plans, with all experts apart and with neighbours joined.
struct TwoBuilders {
  explicit TwoBuilders(const train::Job& job)
      : training(train::build_training_graph(*job.model, job.graph)),
        apart(training.graph, tiered_machine(), {}),
        joined(training.graph, tiered_machine(), {}, 1) {}

  // Returns the plan that a search finds, made with all experts apart.
  [[nodiscard]] Plan plan_within(const PlanBuilder& builder, const Budget& budget) const {
    KnownPlans known;
    PlanCandidates candidates(builder, 1, known);
    Plan plan = apart.build(search_plan(candidates, budget, {}).choices);
    compare_with(plan, budget);
    return plan;
  }

  train::TrainingGraph training;
  PlanBuilder apart, joined;
};

std::string error_of_job(const std::filesystem::path& model, std::string_view lines) {
  try {
    (void)MixtureFolder::job_of(model, lines);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("of four layers of experts the device needs to hold a few experts") {
  const MixtureFolder folder;
  for (const std::string_view trained : {kFrozen, std::string_view()}) {
    CAPTURE(trained);
    const std::string lines(trained);
    const int64_t resident = plan_in(folder, lines + "memory: {plan: fixed}\n").peaks[0].bytes;
    const auto most = static_cast<int64_t>(static_cast<double>(resident) - 0.85 * kExpertBytes);
    const std::string budgets = fmt::format("memory: {{plan: fixed, device: {}, host: 256MiB, disk: 256MiB}}\n", most);
    CHECK_FALSE(plan_in(folder, lines + budgets).fits);
    CHECK(plan_in(folder, lines + budgets + "expert_offload: host\n").fits);
    CHECK(plan_in(folder, lines + budgets + "expert_offload: disk\ngradient_checkpointing: true\n").fits);
  }
}

TEST_CASE("a plan counts the experts that are on the device at once: all, or as many as pass through together") {
  const MixtureFolder folder;
  const auto slots_of = [&](const std::string& lines) {
    const train::PlannedJob planned = train::plan_job(folder.job(std::string(kFrozen) + lines), tiered_machine());
    std::vector<int64_t> slots = expert_slots(planned.training.graph, planned.plan.schedule);
    REQUIRE(std::ssize(slots) == kExpertLayers);
    return slots;
  };
  const std::vector<int64_t> all(kExpertLayers, kExperts);
  CHECK(slots_of("memory: {plan: fixed}\n") == all);
  CHECK(slots_of("memory: {plan: fixed}\nlayer_offloading: host\nexpert_offload: none\n") == all);
  const int64_t resident = plan_in(folder, std::string(kFrozen) + "memory: {plan: fixed}\n").peaks[0].bytes;
  const auto most = static_cast<int64_t>(static_cast<double>(resident) - 0.85 * kExpertBytes);
  const std::string budgets = fmt::format("memory: {{plan: fixed, device: {}, host: 256MiB}}\n", most);
  for (const int64_t passing : slots_of(budgets + "expert_offload: host\n")) {
    CHECK(passing >= 1);
    CHECK(passing < kExperts);
  }
}

TEST_CASE("experts stream where a key lets them leave the device") {
  const MixtureFolder folder;
  const auto streams = [&](const std::string& lines) { return folder.job(lines).graph.model.streams_experts; };
  const std::string lora(kFrozen);
  CHECK_FALSE(streams(lora));
  CHECK(streams(lora + "expert_offload: auto\n"));
  CHECK(streams(lora + "layer_offloading: disk\n"));
  CHECK(streams("parameter_offload: host\n"));
  CHECK(streams("expert_offload: host\n"));
  CHECK_FALSE(streams("optimizer_offload: host\n"));
  CHECK_FALSE(streams(lora + "layer_offloading: host\nexpert_offload: none\n"));
  const std::string vertical = "micro_batch_order: vertical\ngradient_accumulation_steps: 2\n";
  CHECK_FALSE(streams(lora + "layer_offloading: host\n" + vertical));
  CHECK(streams(lora + "expert_offload: host\n" + vertical));
}

TEST_CASE("a plan that is free to choose sends experts away before the rest of their layers") {
  const MixtureFolder folder;
  const std::string lines = std::string(kFrozen) + "expert_offload: auto\n";
  const int64_t resident = plan_in(folder, lines).peaks[0].bytes;
  const train::Job job = folder.job(lines + fmt::format("memory: {{device: {}, host: 1GiB}}\n", resident * 6 / 10));
  const train::PlannedJob planned = train::plan_job(job, tiered_machine());
  CHECK(planned.plan.fits);
  for (const BlockHomes& block : shown_homes(planned.training.graph, planned.plan.choices).blocks) {
    REQUIRE(block.experts);
    CHECK(block.weights() <= *block.experts);
  }
}

TEST_CASE("experts stay on the device with expert_offload: none, wherever the rest of their layers is") {
  const MixtureFolder folder;
  const train::PlannedJob planned = train::plan_job(
      folder.job(std::string(kFrozen) + "layer_offloading: host\nexpert_offload: none\n"), tiered_machine());
  for (const BlockHomes& block : shown_homes(planned.training.graph, planned.plan.choices).blocks) {
    CHECK(block.experts == Tier::kDevice);
    CHECK(block.weights() == Tier::kHost);
  }
}

TEST_CASE("where a mixture does not fit, homes for its experts are offered, unless the config says where they are") {
  const MixtureFolder folder;
  const auto offers = [&](std::string_view lines) {
    const std::vector<train::SuggestedChange> changes =
        train::suggested_changes(folder.loaded(lines), folder.job(lines), Plan{.fits = false}, tiered_machine());
    return std::any_of(changes.begin(), changes.end(), [](const train::SuggestedChange& change) {
      return change.grades[0][0].key == "expert_offload" && change.grades[0][0].value == "auto";
    });
  };
  CHECK(offers(kFrozen));
  CHECK_FALSE(offers(std::string(kFrozen) + "expert_offload: none\n"));
}

TEST_CASE("a home of experts is refused for a dense model") {
  const std::filesystem::path dense = kGoldenModels / "qwen3";
  CHECK(error_of_job(dense, "expert_offload: host\n") ==
        fmt::format("[expert_offload] expected a mixture of experts, got '{}', whose layers are dense; remove it",
                    dense.string()));
  CHECK(error_of_job(dense, "expert_offload: none\n").empty());
}

TEST_CASE("with experts joined a schedule gives each lane the same work, and nearly the same where experts train") {
  const MixtureFolder folder;
  for (const std::string more : {"", "gradient_accumulation_steps: 2\n"}) {
    for (const std::string_view trained : {kFrozen, std::string_view()}) {
      CAPTURE(more);
      CAPTURE(trained);
      const TwoBuilders builders(folder.job("expert_offload: auto\n" + more + std::string(trained)));
      REQUIRE(builders.joined.left_out() > 0);
      // Uses are one stay if few operations lie between them, and of updates that are joined there are fewer.
      const double tolerance = trained.empty() ? 0.03 : 1e-9;
      RandomStream random(1, 0);
      for (int trial = 0; trial < 8; ++trial) {
        const Choices choices = random_choices(builders.training.graph, random);
        const Plan apart = builders.apart.schedule(choices), joined = builders.joined.schedule(choices);
        CHECK(joined.schedule.steps.size() < apart.schedule.steps.size());
        const LaneWork work = builders.joined.work_of(joined.schedule);
        const LaneWork expected = builders.apart.work_of(apart.schedule);
        for (size_t section = 0; section < expected.size(); ++section)
          for (size_t lane = 0; lane < kLanes; ++lane)
            CHECK(work[section][lane] == doctest::Approx(expected[section][lane]).epsilon(tolerance));
        for (const Tier tier : {Tier::kHost, Tier::kDisk})
          CHECK(nth(joined.peaks, tier).bytes == doctest::Approx(nth(apart.peaks, tier).bytes).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("a search with experts joined finds plans that fit and are as fast as those it finds with all apart") {
  const MixtureFolder folder;
  for (const std::string_view trained : {kFrozen, std::string_view()}) {
    const TwoBuilders builders(folder.job("expert_offload: auto\n" + std::string(trained)));
    const Choices kept = uniform_choices(builders.training.graph, ActivationPolicy::kKeep);
    const int64_t most = builders.apart.build(kept).peaks[0].bytes;
    for (const int64_t eighths : {7, 6, 5, 4, 3}) {
      CAPTURE(trained);
      CAPTURE(eighths);
      const Budget budget{.device = most * eighths / 8, .host = 2 * most, .disk = 0};
      const Plan apart = builders.plan_within(builders.apart, budget);
      const Plan joined = builders.plan_within(builders.joined, budget);
      CHECK(joined.fits == apart.fits);
      if (apart.fits) CHECK(joined.simulation.step_seconds(1) <= 1.02 * apart.simulation.step_seconds(1));
    }
  }
}
