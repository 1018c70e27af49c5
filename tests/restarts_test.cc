// Restarts of an adapter (ReLoRA) and of the learning rate: beside peft and torch, under every plan, over checkpoints,
// and what a run leaves.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/safetensors.h"
#include "job/adapter_restart.h"
#include "job/state_pruning.h"
#include "job/state_tensors.h"
#include "model/layout.h"
#include "model/lora.h"
#include "model/storages/quantised.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "saved/merged_base.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"
#include "tests/support/tiny_outcome.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kRestartedModel = kGoldenModels / "llama2";

train::Job restarting_job(const TinySetup& setup, const config::RestartSettings& restarts) {
  train::Job job = tiny_job(kRestartedModel, setup);
  job.config.adapter->restarts = restarts;
  job.graph.model.lora->restarts = true;
  return job;
}

// Merges and begins anew, as a trainer does.
void restart(TinyTraining& training, const fs::path& output, fs::path& base, int64_t step) {
  const train::BaseFiles files = train::read_base_files(training.job());
  base =
      train::write_merged_base(output, {training.job(), files, training.training(), training.session().store(), base});
  train::restart_adapter(training.job(), training.training(), open_weights(base), step, training.session().store());
}

// Gives every A the values of the golden file, whose random numbers are torch's.
void take_golden_starts(TinyTraining& training, int64_t step) {
  const SafetensorsFile starts(kRestartedModel / "golden_restarts.safetensors");
  for (const train::TrainedWeight& t : training.trained()) {
    const Parameter& p = training.training().parameter_of(t);
    if (p.role != ParameterRole::kLoraA) continue;
    const std::vector<StoredTensor>& all = starts.tensors();
    const auto start = std::find_if(all.begin(), all.end(), [&](const StoredTensor& one) {
      return one.name == fmt::format("{}.{}", step, p.name);
    });
    REQUIRE(start != all.end());
    train::write_exact(training.session().store(), training.training(), t, p.name,
                       [&](const TensorView& piece, int64_t first) {
                         starts.read(*start, first, piece.elems(), piece.dtype, piece.data);
                       });
  }
}

std::vector<float> floats(TinyTraining& training, const train::StateTensor& tensor) {
  std::vector<float> values;
  train::read_tensor(training.session().store(), tensor, [&](const TensorView& piece, int64_t) {
    values.insert(values.end(), piece.as<float>(), piece.as<float>() + piece.elems());
  });
  return values;
}

std::vector<FlatBatch> golden_step(size_t step) {
  std::vector<FlatBatch> micro_batches;
  for (const json& batch : tiny_batches()["train"][step]) micro_batches.emplace_back(batch);
  return micro_batches;
}

}  // namespace

TEST_CASE("an adapter that restarts follows peft and torch over two restarts, and becomes the model that peft merges") {
  const json golden = read_json(kRestartedModel / "golden_restarts.json");
  const json& curve = golden["curve"];
  train::Job job = restarting_job({.adapter = "adapter"}, {config::PruneMethod::kMagnitude, curve["ratio"]});
  job.graph.optimizer_options = ops::options_of(ops::kAdamw, {{"weight_decay", 0.01}, {"eps", curve["eps"]}});
  TinyTraining training(std::move(job), 2);
  const TemporaryFolder folder;
  fs::path base;
  for (size_t step = 0; step < tiny_batches()["train"].size(); ++step) {
    CAPTURE(step);
    const std::vector<size_t> restarts = golden["restarts"];
    if (std::find(restarts.begin(), restarts.end(), step) != restarts.end()) {
      restart(training, folder.path(), base, static_cast<int64_t>(step));
      take_golden_starts(training, static_cast<int64_t>(step));
    }
    CHECK(training.accumulate(golden_step(step), curve["learning_rate"], static_cast<int64_t>(step)) ==
          doctest::Approx(curve["loss"][step].get<double>()).epsilon(1e-4));
    CHECK(training.update() == doctest::Approx(curve["grad_norm"][step].get<double>()).epsilon(1e-3));
  }
  const train::BaseFiles files = train::read_base_files(training.job());
  fs::create_directory(folder.path() / "result");
  (void)train::save_merged_model(folder.path() / "result",
                                 {training.job(), files, training.training(), training.session().store(), base});
  const SafetensorsFolder merged = open_weights(folder.path() / "result");
  for (const auto& [tensor, digest] : golden["merged"].items()) {
    CAPTURE(tensor);
    REQUIRE(merged.find(tensor) != nullptr);
    std::vector<float> values(static_cast<size_t>(merged.find(tensor)->elems()));
    merged.read(tensor, DType::kF32, values.data());
    for (size_t i = 0; i < 8; ++i) {
      const auto value = static_cast<double>(values[i * (values.size() - 1) / 7]);
      CHECK(std::abs(value - digest["samples"][i].get<double>()) < 2e-3);
    }
  }
}

TEST_CASE(
    "a restart leaves so large a share of the moments, in numbers and in codes, and the other states as they were") {
  for (const auto& [optimizer, masters] :
       {std::pair(&ops::kAdamw, true), {&ops::kAdamw, false}, {&ops::kAdamw8bit, true}})
    for (const config::PruneMethod method : {config::PruneMethod::kMagnitude, config::PruneMethod::kRandom}) {
      CAPTURE(std::string(optimizer->name));
      const DType dtype = masters ? DType::kF32 : DType::kBF16;
      const config::RestartSettings settings{method, 0.75};
      TinyTraining training(
          restarting_job({.adapter = "adapter", .dtype = dtype, .optimizer = optimizer, .masters = masters}, settings),
          2);
      for (int64_t step = 0; step < 3; ++step) {
        training.accumulate(golden_step(static_cast<size_t>(step)), 0.01, step);
        training.update();
      }
      TinyOutcome before, after;
      collect_state(training, before);
      train::prune_moments(training.training(), settings, 7, 3, training.session().store());
      collect_state(training, after);
      int64_t changed = 0, all = 0;
      for (const auto& [name, bytes] : before.state) {
        const bool is_moment = name.starts_with("state 0.") || (name.starts_with("state ") && bytes.size() > 64);
        const std::vector<std::byte>& now = after.state.at(name);
        if (!name.starts_with("state ")) CHECK(now == bytes);
        if (!is_moment) continue;
        all += std::ssize(bytes);
        for (size_t i = 0; i < bytes.size(); ++i) changed += now[i] != bytes[i] ? 1 : 0;
      }
      CHECK(changed > all / 3);
      if (optimizer != &ops::kAdamw || !masters) continue;
      double zeros = 0, elements = 0;
      for (const train::TrainedWeight& t : training.trained())
        for (size_t i = 0; i < 2; ++i)
          for (const float value : floats(training, train::state_tensor(training.training(), t, i))) {
            zeros += value == 0 ? 1 : 0;
            ++elements;
          }
      CHECK(zeros / elements == doctest::Approx(0.75).epsilon(method == config::PruneMethod::kMagnitude ? 0.02 : 0.1));
    }
}

namespace {

// A run with restarts at steps 6, 12 and 18 of 20, and a checkpoint each third step.
std::vector<std::string> restarting(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"--relora",
                                   "true",
                                   "--jagged_restart_steps",
                                   "6",
                                   "--jagged_restart_warmup_steps",
                                   "2",
                                   "--learning_rate",
                                   "0.0005",
                                   "--max_steps",
                                   "20",
                                   "--save_total_limit",
                                   "100"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

void run_with_restarts(const TinyJob& job, const std::string& name, const std::vector<std::string>& more) {
  const Finished done = run_spillway(job.train(name, more));
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
}

std::string result_of(const TinyJob& job, const std::string& name) {
  return read_file(job.output(name) / "model.safetensors", 1 << 24);
}

}  // namespace

TEST_CASE("a run that restarts its adapter has the same bits under every plan, and from every checkpoint on") {
  const TinyJob job;
  const std::vector<std::vector<std::string>> kBases = {
      {}, {"--load_in_4bit", "true", "--optimizer", "adamw_bnb_8bit", "--optim_args", "min_8bit_size=256"}};
  for (const std::vector<std::string>& of_base : kBases) {
    CAPTURE(of_base.size());
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), of_base.begin(), of_base.end());
      return restarting(std::move(more));
    };
    run_with_restarts(job, "whole", with({}));
    for (const char* place : {"host", "disk"}) {
      CAPTURE(place);
      run_with_restarts(
          job, "other",
          with({"--parameter_offload", place, "--optimizer_offload", place, "--gradient_checkpointing", "true"}));
      CHECK(result_of(job, "other") == result_of(job, "whole"));
      CHECK(job.losses("other") == job.losses("whole"));
      fs::remove_all(job.output("other"));
    }
    for (const int step : {3, 6, 9, 18, 20}) {
      CAPTURE(step);
      // A checkpoint stands alone, wherever it is.
      fs::remove_all(job.output("moved"));
      fs::copy(job.output("whole") / fmt::format("checkpoint-{}", step), job.output("moved"),
               fs::copy_options::recursive);
      run_with_restarts(
          job, "resumed",
          with({"--resume_from_checkpoint", job.output("moved").string(), "--parameter_offload", "disk"}));
      CHECK(result_of(job, "resumed") == result_of(job, "whole"));
      fs::remove_all(job.output("resumed"));
    }
    fs::remove_all(job.output("whole"));
  }
}

TEST_CASE(
    "the result of a run that restarts its adapter is a model, and its checkpoints are adapters of the base so far") {
  const TinyJob job;
  run_with_restarts(job, "out", restarting());
  const fs::path output = job.output("out");
  CHECK(fs::exists(output / "config.json"));
  CHECK_FALSE(fs::exists(output / "adapter_config.json"));
  CHECK_FALSE(fs::exists(output / train::kMergedBase));
  CHECK(read_file(output / "README.md", 1 << 20).find("AutoModelForCausalLM") != std::string::npos);
  // The last checkpoint's base with its adapter merged is the result.
  const fs::path last = output / "checkpoint-20";
  CHECK(read_json(last / "adapter_config.json")["base_model_name_or_path"] == (last / train::kMergedBase).string());
  CHECK_FALSE(fs::exists(last / "config.json"));
  CHECK_FALSE(fs::exists(output / "checkpoint-6" / train::kMergedBase));
  const Finished merged = run_spillway({"merge", (last / train::kMergedBase).string(), "--adapter", last.string(),
                                        "--out", job.output("merged").string()});
  CAPTURE(merged.err);
  REQUIRE(merged.status == 0);
  CHECK(result_of(job, "merged") == result_of(job, "out"));
  // A base that is not the checkpoint's is refused.
  fs::copy_file(kRestartedModel / "model.safetensors", last / train::kMergedBase / "model.safetensors",
                fs::copy_options::overwrite_existing);
  const Finished refused = run_spillway(job.train("other", restarting({"--resume_from_checkpoint", last.string()})));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("expected the base that the checkpoint was written with, got one with other values in") !=
        std::string::npos);
}

TEST_CASE("the best checkpoint of a run that restarts its adapter brings its own base back") {
  const TinyJob job;
  run_with_restarts(job, "best",
                    restarting({"--val_set_size", "8", "--eval_steps", "3", "--load_best_model_at_end", "true",
                                "--metric_for_best_model", "loss", "--greater_is_better", "true"}));
  int best = 0;
  const json report = read_json(job.output("best") / "report.json");
  best = report.at("weights_of_step");
  const fs::path checkpoint = job.output("best") / fmt::format("checkpoint-{}", best);
  const fs::path base = fs::exists(checkpoint / train::kMergedBase) ? checkpoint / train::kMergedBase : kRestartedModel;
  const Finished merged =
      run_spillway({"merge", base.string(), "--adapter", checkpoint.string(), "--out", job.output("merged").string()});
  CAPTURE(merged.err);
  REQUIRE(merged.status == 0);
  CHECK(result_of(job, "merged") == result_of(job, "best"));
}

TEST_CASE("ranks that share a run with restarts give the bits of one") {
  const TinyJob job;
  run_with_restarts(job, "one", restarting());
  for (const char* stage : {"1", "3"}) {
    CAPTURE(stage);
    run_with_restarts(job, "two",
                      restarting({"--ranks", "2", "--gradient_accumulation_steps", "1", "--zero_stage", stage}));
    CHECK(result_of(job, "two") == result_of(job, "one"));
    fs::remove_all(job.output("two"));
  }
}

TEST_CASE("restarts that cannot be made are refused before anything is read") {
  const TinyJob job;
  const auto error = [&](const std::vector<std::string>& more) {
    const Finished done = run_spillway(job.train("refused", more));
    CHECK(done.status == 2);
    return done.err;
  };
  CHECK(error(restarting({"--optimizer", "lion"}))
            .find("[optimizer] expected adamw or adamw_8bit beside relora, got lion; write one of them") !=
        std::string::npos);
  const Finished quantised =
      run_spillway({"quantize", kRestartedModel.string(), "--type", "nf4", "--out", job.output("nf4").string()});
  CAPTURE(quantised.err);
  REQUIRE(quantised.status == 0);
  CHECK(error(restarting({"--base_model", job.output("nf4").string()}))
            .find("[relora] expected a base whose files are not quantised") != std::string::npos);
}
