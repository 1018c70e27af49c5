// The plan chooses the order of a step's micro-batches.
#include "job/order_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/temporary_folder.h"
#include "config/load.h"
#include "io/file.h"
#include "job/planned_job.h"
#include "job/suggested_changes.h"
#include "plan/verify.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Training of a small model, by LoRA or in full, with four micro-batches a step, on a machine whose links are slow.
class OrderJobs {
 public:
  explicit OrderJobs(std::string method = "adapter: lora\nlora_r: 2\nlora_target_linear: true\n", int64_t ranks = 0)
      : method_(std::move(method)), ranks_(ranks) {
    write_file(folder_.path() / "config.json",
               R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 64, "intermediate_size": 256, "max_position_embeddings": 64, "num_attention_heads": 2,
    "num_hidden_layers": 6, "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "tie_word_embeddings": true, "vocab_size": 300})");
  }

  [[nodiscard]] config::LoadedConfig loaded(const std::string& lines) const {
    const std::string text = fmt::format(
        "base_model: {}\noutput_dir: unused\nlearning_rate: 0.01\ndatasets: [{{path: unused}}]\nsequence_len: 16\n"
        "gradient_accumulation_steps: 4\n{}{}",
        folder_.path().string(), method_, lines);
    return config::load_config(text, "test", {}, config::ConfigUse::kTrain, ranks_);
  }
  [[nodiscard]] train::Job job(const std::string& lines) const {
    return train::make_job(loaded(lines).config, machine());
  }
  [[nodiscard]] static Machine machine() {
    Machine machine = tiered_machine();
    machine.link_bytes_per_second.fill(2e7);
    return machine;
  }
  // Within so many bytes of the device, or without a limit for 0.
  [[nodiscard]] train::PlannedJob planned(int64_t device, const std::string& lines = "",
                                          std::vector<FrontierPoint>* frontier = nullptr) const {
    const std::string budget = device > 0 ? fmt::format("device: {}, ", device) : "";
    const train::Job one = job(fmt::format("memory: {{{}host: 64MiB}}\n{}", budget, lines));
    return train::plan_job(one, machine(), train::build_training_graph(*one.model, one.graph), frontier);
  }
  // The device memory in which everything lives there horizontally.
  [[nodiscard]] int64_t all() const { return planned(0, kHorizontal).plan.peaks[0].bytes; }

  static constexpr const char* kHorizontal = "micro_batch_order: horizontal\n";

 private:
  std::string method_;
  int64_t ranks_;
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("weights that cross a slow link are taken once for all micro-batches; where there is room, nothing changes") {
  const OrderJobs jobs;
  const int64_t all = jobs.all();
  const train::PlannedJob resident = jobs.planned(all);
  CHECK(resident.context.group == 1);
  CHECK(resident.context.other_orders.empty());
  CHECK(resident.plan.peaks[0].bytes <= all);

  std::vector<FrontierPoint> frontier;
  const train::PlannedJob horizontal = jobs.planned(all / 2, OrderJobs::kHorizontal),
                          chosen = jobs.planned(all / 2, "", &frontier);
  REQUIRE(horizontal.plan.fits);
  CHECK(horizontal.context.other_orders.empty());
  REQUIRE(chosen.plan.fits);
  CHECK(chosen.context.group > 1);
  CHECK(std::ssize(chosen.training.group) == chosen.context.group);
  const double seconds = chosen.context.step_seconds(chosen.plan.simulation),
               before = horizontal.context.step_seconds(horizontal.plan.simulation);
  CHECK(seconds * kWorthOrder < before);
  CHECK(verify(chosen.training.graph, chosen.plan.program, chosen.context.budget).empty());
  // It says what the others would cost, horizontal first.
  REQUIRE(chosen.context.other_orders.size() == 2);
  CHECK(chosen.context.other_orders[0].group == 1);
  CHECK(chosen.context.other_orders[0].step_seconds == before);
  // Points of the frontier carry the order that they were planned with.
  REQUIRE(frontier.size() > 1);
  CHECK(frontier.front().group == 1);
  CHECK(std::any_of(frontier.begin(), frontier.end(),
                    [&](const FrontierPoint& point) { return point.group == chosen.context.group; }));
  for (size_t i = 1; i < frontier.size(); ++i) {
    CHECK(frontier[i].device_bytes() <= frontier[i - 1].device_bytes());
    CHECK(chosen.context.step_seconds(frontier[i]) >= chosen.context.step_seconds(frontier[i - 1]));
  }
}

TEST_CASE("weights that ranks gather over a slow link are gathered once for all micro-batches") {
  const OrderJobs jobs("adapter: lora\nlora_r: 2\nlora_target_linear: true\nzero_stage: 3\n", 2);
  const train::PlannedJob horizontal = jobs.planned(0, OrderJobs::kHorizontal), chosen = jobs.planned(0);
  CHECK(chosen.context.group > 1);
  CHECK(chosen.context.step_seconds(chosen.plan.simulation) * kWorthOrder <
        horizontal.context.step_seconds(horizontal.plan.simulation));
}

TEST_CASE("where one micro-batch after another does not fit, a whole step at a time may, which keeps no sums") {
  const OrderJobs jobs("max_grad_norm: 0\n");
  const auto planned = [&](int64_t device, const char* order) {
    return train::plan_job(jobs.job(fmt::format("memory: {{device: {}, host: 0, disk: 0}}\n{}", device, order)),
                           OrderJobs::machine());
  };
  const int64_t horizontal = planned(1, OrderJobs::kHorizontal).plan.peaks[0].bytes,
                whole_step = planned(1, "micro_batch_order: vertical\nmicro_batch_group: 4\n").plan.peaks[0].bytes;
  REQUIRE(whole_step < horizontal);
  const int64_t between = (whole_step + horizontal) / 2;
  CHECK_FALSE(planned(between, OrderJobs::kHorizontal).plan.fits);
  const train::PlannedJob chosen = planned(between, "");
  CHECK(chosen.plan.fits);
  CHECK(chosen.context.group == 4);
}

TEST_CASE("an order that the config fixes stays, and of vertical the plan chooses the group") {
  const OrderJobs jobs;
  const train::PlannedJob least = jobs.planned(1, "micro_batch_order: vertical\nmicro_batch_group: 2\n");
  CHECK(least.context.group == 2);
  CHECK(least.context.other_orders.empty());
  const train::PlannedJob smaller = jobs.planned(least.plan.peaks[0].bytes, "micro_batch_order: vertical\n");
  CHECK(smaller.plan.fits);
  CHECK(smaller.context.group > 1);
}

TEST_CASE("where a group does not fit, smaller ones are offered, the largest first, and then no groups") {
  const OrderJobs jobs;
  const auto first_key = [&](const std::string& lines) {
    std::vector<std::string> values;
    for (const train::SuggestedChange& change :
         train::suggested_changes(jobs.loaded(lines), jobs.job(lines), Plan{.fits = false}, OrderJobs::machine())) {
      if (!change.grades[0][0].key.starts_with("micro_batch_")) continue;
      for (const train::Overrides& grade : change.grades) values.push_back(grade[0].value);
    }
    return values;
  };
  CHECK(first_key("micro_batch_order: vertical\nmicro_batch_group: 4\n") == std::vector<std::string>{"3", "2", "null"});
  CHECK(first_key("micro_batch_order: vertical\n") == std::vector<std::string>{"horizontal"});
  CHECK(first_key("").empty());
}
