// Training of drawn layers (LISA): beside torch, under every plan, over checkpoints, and what it saves of memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "job/draw_planner.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "tests/support/config_error.h"
#include "tests/support/deep_model.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"
#include "tests/support/tiny_outcome.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Draws as a trainer makes them, with the layers that a test names.
class NamedDraws {
 public:
  void begin(TinyTraining& training, int64_t step, const std::vector<int64_t>& layers) {
    for (const int64_t layer : layers_) trained_[layer] += step - first_;
    train::LayerDraw draw{.first_step = step, .numbers = layers};
    for (const int64_t layer : layers) draw.steps_before.push_back(trained_[layer]);
    layers_ = layers;
    first_ = step;
    training.session().draw(draw);
  }

 private:
  std::vector<int64_t> layers_;
  std::map<int64_t, int64_t> trained_;
  int64_t first_ = 0;
};

// A job that trains `count` layers at a time, of which the last are planned for first.
train::Job drawing(train::Job job, int64_t count) {
  const ParameterTable parameters = parameters_of(*job.model, job.graph.model);
  job.graph.drawn = {.list = train::layer_list(parameters)};
  const int64_t layers = train::count_layers(parameters, job.graph.drawn->list);
  for (int64_t layer = layers - count; layer < layers; ++layer) job.graph.drawn->numbers.push_back(layer);
  return job;
}

std::vector<FlatBatch> batches_of_step(size_t step) {
  std::vector<FlatBatch> micro_batches;
  for (const json& batch : tiny_batches()["train"][step]) micro_batches.emplace_back(batch);
  return micro_batches;
}

const std::vector<std::vector<int64_t>> kDraws = {{0, 2}, {1, 2}, {0, 1}, {0, 2}};

// Two steps of two micro-batches for each of kDraws, of qwen3_tied, whose three layers are not all trained at once.
TinyOutcome drawn_outcome(const TinySetup& setup, const std::string& lines, int64_t group = 1) {
  TinySetup own = setup;
  own.micro_batches = group;
  const ModeJobs jobs(own, "qwen3_tied");
  train::Job job = drawing(jobs.job(lines), 2);
  job.graph.is_whole_step = group == static_cast<int64_t>(jobs.accumulation()) && group > 1;
  std::optional<train::JobTiers> tiers;
  TinyTraining training(job, jobs.machine(), [&](const train::PlannedJob& planned) {
    REQUIRE(planned.plan.fits);
    REQUIRE(train::shortage_beside(planned).empty());
    return tiers.emplace(job, planned).options();
  });
  NamedDraws draws;
  TinyOutcome outcome;
  for (size_t i = 0; i < kDraws.size(); ++i) {
    const auto step = static_cast<int64_t>(2 * i);
    draws.begin(training, step, kDraws[i]);
    train_steps(training, step, step + 2, jobs.accumulation(), outcome);
  }
  collect_state(training, outcome);
  return outcome;
}

}  // namespace

TEST_CASE("layers that are drawn follow torch, which passes over weights without gradients") {
  for (const std::string model : {"llama2", "qwen3_tied", "gemma3"}) {
    CAPTURE(model);
    const json golden = read_json(kGoldenModels / model / "golden_layer_draws.json");
    const json& curve = golden["curve"];
    train::Job job = drawing(tiny_job(kGoldenModels / model, {}), std::ssize(golden["draws"][0]["layers"]));
    job.graph.optimizer_options = ops::options_of(ops::kAdamw, {{"weight_decay", curve["weight_decay"]}});
    TinyTraining training(std::move(job), 2);
    NamedDraws draws;
    for (size_t step = 0; step < curve["loss"].size(); ++step) {
      CAPTURE(step);
      for (const json& draw : golden["draws"])
        if (draw["first_step"] == step) draws.begin(training, static_cast<int64_t>(step), draw["layers"]);
      CHECK(training.accumulate(batches_of_step(step), curve["learning_rate"], static_cast<int64_t>(step)) ==
            doctest::Approx(curve["loss"][step].get<double>()).epsilon(1e-4));
      CHECK(training.update() == doctest::Approx(curve["grad_norm"][step].get<double>()).epsilon(1e-3));
    }
    CHECK(golden["after"].size() == training.trained().size());
    for (const train::TrainedWeight& t : training.trained()) {
      CAPTURE(training.name(t.weight));
      const json& digest = golden["after"][training.name(t.weight)];
      const std::vector<double> values = training.numbers(t.weight);
      for (size_t i = 0; i < 8; ++i)
        CHECK(std::abs(values[i * (values.size() - 1) / 7] - digest["samples"][i].get<double>()) < 2e-3);
      // A layer that was never drawn is what it was, and each of the others is not.
      const bool is_of_undrawn = model == "gemma3" && training.name(t.weight).starts_with("model.layers.1.");
      CHECK((digest["change"].get<double>() == 0) == is_of_undrawn);
      if (!is_of_undrawn) continue;
      TinyTraining fresh(tiny_job(kGoldenModels / model, {}), 1);
      const auto same = std::find_if(fresh.trained().begin(), fresh.trained().end(), [&](const auto& one) {
        return fresh.name(one.weight) == training.name(t.weight);
      });
      CHECK(values == fresh.numbers(same->weight));
    }
  }
}

TEST_CASE("no plan changes a bit of drawn layers, nor where weights, states, sums and activations live") {
  for (const TinySetup& setup :
       std::vector<TinySetup>{{.dtype = DType::kBF16, .threads = 1},
                              {.dtype = DType::kF32, .accumulates = false, .threads = 1},
                              {.dtype = DType::kBF16, .threads = 1, .optimizer = &ops::kAdamw8bit, .masters = false}}) {
    CAPTURE(name_of(setup.dtype));
    CAPTURE(setup.accumulates);
    const TinyOutcome plain = drawn_outcome(setup, kPlainJob);
    for (const std::string mode :
         {"gradient_checkpointing: true\n", "activation_offloading: disk\ngradient_checkpointing: true\n",
          "layer_offloading: disk\n", "parameter_offload: host\noptimizer_offload: disk\n",
          "gradient_offload: host\noptimizer_offload: host\n", "gradient_offload: disk\nparameter_offload: disk\n"}) {
      for (const char* plan : {"memory: {plan: fixed}\n", "memory: {plan: auto}\n"}) {
        CAPTURE(mode);
        CAPTURE(plan);
        CHECK(drawn_outcome(setup, mode + plan) == plain);
      }
    }
  }
}

TEST_CASE("drawn layers have the same bits in any device memory, whose plans may keep a part of the states elsewhere") {
  const TinySetup setup{.dtype = DType::kBF16, .threads = 1};
  const ModeJobs jobs(setup, "qwen3_tied");
  const TinyOutcome plain = drawn_outcome(setup, kPlainJob);
  for (const char* tiers : {"", ", host: 64KiB, disk: 64MiB", ", host: 16MiB"}) {
    const auto peak = [&](const std::string& device) {
      const train::Job job = drawing(jobs.job(fmt::format("memory: {{{}{}}}\n", device, tiers)), 2);
      return train::plan_job(job, jobs.machine()).plan.peaks[0].bytes;
    };
    const int64_t most = peak("plan: auto"), least = peak("device: 1");
    for (const int64_t quarters : {1, 2, 3}) {
      CAPTURE(tiers);
      CAPTURE(quarters);
      const int64_t device = least + (most - least) * quarters / 4;
      CHECK(drawn_outcome(setup, fmt::format("memory: {{device: {}{}}}\n", device, tiers)) == plain);
    }
  }
}

TEST_CASE("layer by layer, drawn layers have the bits of one micro-batch after another") {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const TinySetup setup{.dtype = dtype, .threads = 1};
    const TinyOutcome horizontal = drawn_outcome(setup, kPlainJob);
    CHECK(drawn_outcome(setup, kPlainJob, 2) == horizontal);  // a whole step
    CHECK(drawn_outcome(setup, kPlainJob, 3) == horizontal);  // the third has no rows
    CHECK(drawn_outcome(setup, "parameter_offload: host\noptimizer_offload: host\n", 2) == horizontal);
  }
}

TEST_CASE("two of 16 layers at a time take clearly less memory than all, most of all where states may leave") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 16, 384);
  const auto peak = [&](bool draws, bool has_host) {
    train::Job job = tiny_job(folder.path(), {.activations = ActivationPolicy::kRecompute, .dtype = DType::kBF16});
    if (draws) job = drawing(std::move(job), 2);
    if (has_host) {
      job.budget.host = int64_t{64} << 20;
      job.policy.rules.push_back({{.kind = ValueKind::kOptimizerState}, Tier::kHost});
    }
    const train::PlannedJob planned = train::plan_job(job, Machine{.capacity_bytes = {0, int64_t{1} << 30, 0}});
    REQUIRE(train::fits(planned));
    return train::peak_bytes(planned, Tier::kDevice);
  };
  // Each number of a layer has 2 bytes of the weight, 12 of its master and moments, and 4 of the sum of gradients.
  CHECK(static_cast<double>(peak(true, false)) < 0.86 * static_cast<double>(peak(false, false)));
  CHECK(static_cast<double>(peak(true, true)) < 0.55 * static_cast<double>(peak(false, true)));
}

TEST_CASE("other draws fit beside the first one's homes, in no more memory than it has") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 16);
  for (const bool accumulates : {true, false}) {
    const train::Job job = drawing(tiny_job(folder.path(), {.activations = {}, .accumulates = accumulates}), 3);
    const train::PlannedJob planned = train::plan_job(job, Machine{});
    Budget room;
    room.device = planned.plan.peaks[0].bytes;
    for (const std::vector<int64_t>& layers :
         std::vector<std::vector<int64_t>>{{0, 1, 2}, {0, 7, 15}, {5, 6, 7}, {13, 14, 15}, {1, 14, 15}}) {
      CAPTURE(layers[0]);
      CAPTURE(layers[1]);
      const train::PlannedDraw draw = planned.draws->plan(layers, room);
      CHECK(draw.plan.fits);
      CHECK(draw.plan.peaks[0].bytes <= planned.plan.peaks[0].bytes);
    }
  }
}

namespace {

// A run of full fine-tuning that draws one of two layers every fourth step, with a checkpoint every third.
std::vector<std::string> drawing_run(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"--adapter",   "none", "--lisa_n_layers",    "1",   "--lisa_step_interval", "4",
                                   "--max_steps", "14",   "--save_total_limit", "100", "--learning_rate",      "0.001"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string drawn_model(const TinyJob& job, const std::string& name) {
  return read_file(job.output(name) / "model.safetensors", 1 << 24);
}

Finished run_drawing(const TinyJob& job, const std::string& name, const std::vector<std::string>& more = {}) {
  const Finished done = run_spillway(job.train(name, drawing_run(more)));
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  return done;
}

}  // namespace

TEST_CASE("a run that draws layers has the same bits under every plan, and from every checkpoint on") {
  const TinyJob job;
  const Finished whole = run_drawing(job, "whole");
  for (const char* line : {"from step 1 on: layer ", "from step 2 on: layer ", "from step 5 on: layer ",
                           "from step 9 on: layer ", "from step 13 on: layer "})
    CHECK(whole.err.find(line) != std::string::npos);
  CHECK(whole.err.find("from step 6 on") == std::string::npos);
  run_drawing(job, "other",
              {"--optimizer_offload", "disk", "--gradient_checkpointing", "true", "--parameter_offload", "host"});
  CHECK(drawn_model(job, "other") == drawn_model(job, "whole"));
  CHECK(job.losses("other") == job.losses("whole"));
  for (const int step : {3, 6, 9, 12}) {
    CAPTURE(step);
    const std::string from = (job.output("whole") / fmt::format("checkpoint-{}", step)).string();
    const Finished resumed = run_drawing(job, "resumed", {"--resume_from_checkpoint", from});
    CHECK(resumed.err.find(fmt::format("from step {} on: layer ", step + 1)) != std::string::npos);
    CHECK(drawn_model(job, "resumed") == drawn_model(job, "whole"));
    fs::remove_all(job.output("resumed"));
  }
  const json report = read_json(job.output("whole") / "report.json");
  REQUIRE(report["layer_draws"].size() == 5);
  CHECK(report["layer_draws"][2]["from_step"] == 5);
  CHECK(report["layer_draws"][2]["layers"].size() == 1);
}

TEST_CASE("what cannot be drawn is refused before the data are read") {
  const TinyJob job;
  const auto error_of = [&](const std::vector<std::string>& more) {
    const Finished refused = run_spillway(job.train("refused", drawing_run(more)));
    CHECK(refused.status == 2);
    CHECK(refused.err.find("reading the data") == std::string::npos);
    return refused.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(error_of({"--lisa_n_layers", "3"}), "expected at most the model's 2 layers, got 3; lower it");
  has(error_of({"--lisa_layers_attribute", "transformer.h"}),
      "expected the list of this model's layers, model.layers, got 'transformer.h'; write model.layers");
  has(error_of({"--lisa_step_interval", "0"}), "lisa_step_interval");
  has(error_of({"--adapter", "lora"}), "expected full fine-tuning that learns text, got adapter beside it; remove one");
  has(error_of({"--optimizer", "schedule_free_adamw"}),
      "expected an optimizer that keeps its numbers weight by weight");
}
