// A family of models that is no decoder goes through everything that knows models only by their interface: planner,
// tiers, adapters, evaluation, checkpoints.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "config/load.h"
#include "job/offload_policy.h"
#include "job/tiers.h"
#include "model/decoder/layer.h"
#include "saved/checkpoint.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_outcome.h"
#include "tests/support/toy_family.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr ToySizes kSizes;
constexpr int64_t kTokens = 8, kFamilySteps = 4;

// One micro-batch: the same rows in every step, some of them left out.
struct ToyBatch {
  std::vector<float> latents, text, target;
  int64_t rows = 0;

  explicit ToyBatch(int64_t step) : rows(kTokens - step % 3) {
    RandomStream random(11, 0);
    const auto fill = [&](std::vector<float>& list, int64_t count) {
      while (std::ssize(list) < count) list.push_back(static_cast<float>(random.uniform() - 0.5));
    };
    fill(text, kSizes.text_tokens * kSizes.text_width);
    fill(latents, rows * kSizes.width);
    fill(target, rows * kSizes.width);
  }
  [[nodiscard]] infer::Batch batch() const {
    const auto bytes = [](const std::vector<float>& list) { return std::as_bytes(std::span(list)); };
    return {.tokens = rows,
            .columns = {{{"latents", bytes(latents)}, {"text", bytes(text)}, {"target", bytes(target)}}}};
  }
  [[nodiscard]] float scale() const { return 1.0f / static_cast<float>(rows); }
};

// A folder with a toy, and trainings on it with the modes that a config's lines ask for.
class ToyJobs {
 public:
  explicit ToyJobs(bool lora) : lora_(lora) { write_toy_folder(folder(), kSizes); }

  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

  [[nodiscard]] train::Job job(const std::string& lines) const {
    train::Job job;
    const std::string text =
        fmt::format("base_model: {}\noutput_dir: {}\nlearning_rate: 1\ndatasets: [{{path: x}}]\n{}", folder().string(),
                    (folder() / "out").string(), lines);
    job.config = config::load_config(text, "test", {}, config::ConfigUse::kTrain).config;
    job.model = make_toy(kSizes);
    job.graph.model = {.tokens = kTokens, .train_base = !lora_};
    if (lora_) {
      job.config.adapter.emplace();
      job.graph.model.lora = LoraOptions{.r = 2, .alpha = 4, .dropout = 0.2, .target_modules = {"q", "v", "o"}};
    }
    job.graph.objective = toy_objective();
    job.graph.max_grad_norm = 0.5;
    job.policy = train::make_policy(job.config.offload, attention_windows(*job.model), kTokens);
    job.budget = train::make_budget(job.config.memory, job.policy, tiered_machine());
    return job;
  }

  // `tiers` must outlive the training.
  [[nodiscard]] TinyTraining training(const std::string& lines, std::optional<train::JobTiers>& tiers) const {
    return {job(lines), tiered_machine(), [&](const train::PlannedJob& planned) {
              REQUIRE(planned.plan.fits);
              return tiers.emplace(job(lines), planned, cpu_device()).options();
            }};
  }

  static void steps(TinyTraining& training, int64_t first, int64_t last, TinyOutcome& outcome) {
    for (int64_t step = first; step < last; ++step) {
      const ToyBatch batch(step);
      training.session().begin_step(0.005, step);
      outcome.losses.push_back(training.session().micro_step(batch.batch(), batch.scale(), 0));
      outcome.norms.push_back(training.session().update());
      outcome.evaluations.push_back(training.session().evaluate(ToyBatch(0).batch()));
    }
  }

  [[nodiscard]] TinyOutcome outcome(const std::string& lines) const {
    std::optional<train::JobTiers> tiers;
    TinyTraining training = this->training(lines, tiers);
    TinyOutcome result;
    steps(training, 0, kFamilySteps, result);
    collect_state(training, result);
    return result;
  }

 private:
  TemporaryFolder folder_;
  bool lora_;
};

const char* const kPlain = "memory: {plan: fixed}\n";

}  // namespace

TEST_CASE("a family without text or causality has the loss and the gradients of float64") {
  const ToyJobs jobs(false);
  std::optional<train::JobTiers> tiers;
  TinyTraining training = jobs.training(kPlain, tiers);
  std::vector<std::vector<double>> weights;
  for (const train::TrainedWeight& t : training.trained()) weights.push_back(training.numbers(t.weight));
  const ToyBatch batch(1);
  REQUIRE(batch.rows < kTokens);
  const auto loss = [&] { return toy_loss(kSizes, weights, batch.latents, batch.text, batch.target); };
  const double expected = loss();
  double squares = 0;
  for (std::vector<double>& weight : weights) {
    for (double& element : weight) {
      constexpr double kStep = 1e-5;
      const double middle = element;
      element = middle + kStep;
      const double above = loss();
      element = middle - kStep;
      squares += std::pow((above - loss()) / (2 * kStep), 2);
      element = middle;
    }
  }
  training.session().begin_step(0, 0);
  CHECK(training.session().micro_step(batch.batch(), batch.scale(), 0) == doctest::Approx(expected).epsilon(1e-5));
  CHECK(training.session().update() == doctest::Approx(std::sqrt(squares)).epsilon(1e-4));
}

TEST_CASE("no plan changes a bit of another family's training") {
  for (const bool lora : {false, true}) {
    const ToyJobs jobs(lora);
    const TinyOutcome plain = jobs.outcome(kPlain);
    CHECK(plain.evaluations.back() < plain.evaluations.front());
    for (const char* mode : {"gradient_checkpointing: true", "activation_offloading: true",
                             "activation_offloading: disk", "layer_offloading: disk", "layer_offloading: host",
                             "parameter_offload: disk", "gradient_offload: host", "optimizer_offload: disk"}) {
      for (const char* plan : {"fixed", "auto"}) {
        CAPTURE(lora);
        CAPTURE(mode);
        CAPTURE(plan);
        CHECK(jobs.outcome(fmt::format("{}\nmemory: {{plan: {}}}\n", mode, plan)) == plain);
      }
    }
  }
}

TEST_CASE("another family goes on from a checkpoint to the bits of a run that never stopped") {
  for (const bool lora : {false, true}) {
    CAPTURE(lora);
    const ToyJobs jobs(lora);
    const std::filesystem::path output = jobs.folder() / "out";
    std::filesystem::create_directory(output);
    std::optional<train::JobTiers> tiers, later_tiers;
    TinyOutcome want, got;
    {
      TinyTraining training = jobs.training(kPlain, tiers);
      ToyJobs::steps(training, 0, 2, want);
      got = want;
      train::save_checkpoint(
          output, {.step = 2},
          {training.job(), train::read_base_files(training.job()), training.training(), training.session().store()});
      ToyJobs::steps(training, 2, kFamilySteps, want);
      collect_state(training, want);
    }
    TinyTraining training = jobs.training("optimizer_offload: disk\n" + std::string(kPlain), later_tiers);
    train::load_checkpoint(train::read_checkpoint(output / "checkpoint-2"), training.job(), training.training(),
                           training.session().store());
    ToyJobs::steps(training, 2, kFamilySteps, got);
    collect_state(training, got);
    CHECK(got == want);
  }
}
