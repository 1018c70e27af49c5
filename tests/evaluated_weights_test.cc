// Weights that are evaluated and saved, where the optimizer says that they are not those in training.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "io/convert.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "ops/optimizers/schedule_free_adamw/schedule_free_adamw.h"
#include "saved/evaluated_weights.h"
#include "saved/saved_model.h"
#include "saved/state.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/piecewise_store.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"
#include "tests/support/tiny_outcome.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

// Full fine-tuning and LoRA, with masters, in f32, and in bf16 alone.
std::vector<TinySetup> evaluated_setups() {
  const ops::OptimizerDef* optimizer = &ops::kScheduleFreeAdamw;
  return {{.dtype = DType::kF32, .optimizer = optimizer},
          {.dtype = DType::kBF16, .optimizer = optimizer},
          {.dtype = DType::kBF16, .optimizer = optimizer, .masters = false},
          {.adapter = "adapter", .dtype = DType::kF32, .optimizer = optimizer},
          {.adapter = "adapter", .dtype = DType::kBF16, .optimizer = optimizer}};
}

train::Job sliced_job(const TinySetup& setup) {
  train::Job job = tiny_job(kGoldenModels / "qwen3", setup);
  job.graph.state_slice_elems = setup.adapter.empty() ? 320 : 40;
  return job;
}

// All elements of a floating value.
std::vector<double> numbers_of(const TinyTraining& training, ValueId id) {
  const ValueType& type = training.training().graph.value(id).type;
  std::vector<float> numbers(static_cast<size_t>(type.shape.elems()));
  convert_floats(training.bytes(id).data(), type.dtype, numbers.data(), DType::kF32, type.shape.elems());
  return {numbers.begin(), numbers.end()};
}

// x = y + (1 - 1 / 0.9) (z - y) in float64, of what is most exact.
std::vector<double> evaluated_numbers(const TinyTraining& training, const train::TrainedWeight& t) {
  std::vector<double> weight, result;
  if (t.slices[0].master == kNone) weight = numbers_of(training, t.weight);
  for (const train::StateSlice& slice : t.slices) {
    std::vector<double> rows = slice.master == kNone ? std::vector<double>() : numbers_of(training, slice.master);
    const std::vector<double> difference = numbers_of(training, slice.states[0]);
    for (size_t i = 0; i < difference.size(); ++i) {
      const double y = rows.empty() ? weight[result.size()] : rows[i];
      result.push_back(y + (1 - 1 / 0.9) * difference[i]);
    }
  }
  return result;
}

std::vector<std::byte> bytes_of_all(const TinyTraining& training) {
  std::vector<std::byte> all;
  for (const train::TrainedWeight& t : training.trained()) {
    const std::vector<std::byte> bytes = training.bytes(t.weight);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// Steps, and behind each an evaluation of both weights.
TinyOutcome outcome_with_evaluations(TinyTraining& training) {
  static const std::vector<FlatBatch> kMicroBatches = all_micro_batches();
  TinyOutcome outcome;
  for (int64_t step = 0; step < ModeJobs::kSteps; ++step) {
    train_steps(training, step, step + 1, 1, outcome);
    train::put_evaluated_weights(training.training(), training.session().store());
    outcome.evaluations.push_back(training.session().evaluate(kMicroBatches.front().batch()));
    train::put_trained_weights(training.training(), training.session().store());
  }
  collect_state(training, outcome);
  return outcome;
}

std::map<int, double> evaluation_losses(const fs::path& output) {
  std::map<int, double> result;
  const std::string text = read_file(output / "metrics.jsonl", 1 << 24);
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const auto line = nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin));
    if (line.contains("eval_loss")) result[line["step"]] = line["eval_loss"];
  }
  return result;
}

}  // namespace

TEST_CASE("what is evaluated takes the place of the weights in training, and these come back to the last bit") {
  for (const TinySetup& setup : evaluated_setups()) {
    CAPTURE(setup.adapter);
    CAPTURE(name_of(setup.dtype));
    CAPTURE(setup.masters);
    TinyTraining training(sliced_job(setup), 1), other(sliced_job(setup), 1);
    TinyOutcome outcome, undisturbed;
    train_steps(training, 0, 2, 1, outcome);
    train_steps(other, 0, 2, 1, undisturbed);
    std::map<ValueId, std::vector<double>> want;
    for (const train::TrainedWeight& t : training.trained()) want[t.weight] = evaluated_numbers(training, t);
    const std::vector<std::byte> trained = bytes_of_all(training);
    ValueStore& store = training.session().store();
    train::put_evaluated_weights(training.training(), store);
    CHECK(bytes_of_all(training) != trained);
    const double tolerance = setup.dtype == DType::kF32 ? 1e-7 : 0x1p-8;
    for (const auto& [weight, numbers] : want) {
      CAPTURE(training.name(weight));
      const std::vector<double> got = numbers_of(training, weight);
      REQUIRE(got.size() == numbers.size());
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(std::abs(got[i] - numbers[i]) <= tolerance * (1e-3 + std::abs(numbers[i])));
    }
    train::put_trained_weights(training.training(), store);
    CHECK(bytes_of_all(training) == trained);
    train_steps(training, 2, 3, 1, outcome);
    train_steps(other, 2, 3, 1, undisturbed);
    collect_state(training, outcome);
    collect_state(other, undisturbed);
    CHECK(outcome == undisturbed);
  }
}

TEST_CASE("files have what is evaluated, the same through small buffers; the state has what is trained") {
  for (const TinySetup& setup : evaluated_setups()) {
    CAPTURE(setup.adapter);
    CAPTURE(name_of(setup.dtype));
    CAPTURE(setup.masters);
    TinyTraining training(sliced_job(setup), 1);
    TinyOutcome outcome;
    train_steps(training, 0, 2, 1, outcome);
    const TemporaryFolder folder;
    const auto save = [&](const std::string& name, ValueStore& store) {
      fs::create_directory(folder.path() / name);
      train::save_model(folder.path() / name,
                        {training.job(), train::read_base_files(training.job()), training.training(), store});
      const char* weights = setup.adapter.empty() ? "model.safetensors" : "adapter_model.safetensors";
      return folder.path() / name / weights;
    };
    const std::vector<std::byte> trained = bytes_of_all(training);
    const fs::path file = save("direct", training.session().store());
    CHECK(bytes_of_all(training) == trained);
    const fs::path state = folder.path() / "state";
    train::save_optimizer_state(state, training.training(), training.session().store());

    PiecewiseStore pieces(training.training().graph, 37);
    train::InitialState(training.job()).load(training.job(), training.training(), pieces);
    train::load_optimizer_state(state, training.training(), pieces);
    CHECK(read_file(save("pieces", pieces), 1 << 24) == read_file(file, 1 << 24));

    const SafetensorsFile saved(file);
    for (const train::TrainedWeight& t : training.trained()) {
      const std::string& name = training.name(t.weight);
      CAPTURE(name);
      const std::vector<double> want = evaluated_numbers(training, t);
      for (const StoredTensor& tensor : saved.tensors()) {
        if (tensor.name != (setup.adapter.empty() ? name : adapter_tensor_name(name))) continue;
        std::vector<float> got(want.size());
        saved.read(tensor, 0, tensor.elems(), DType::kF32, got.data());
        const double tolerance = tensor.dtype() == DType::kF32 ? 1e-7 : 0x1p-8;
        for (size_t i = 0; i < got.size(); ++i)
          CHECK(std::abs(static_cast<double>(got[i]) - want[i]) <= tolerance * (1e-3 + std::abs(want[i])));
      }
    }
  }
}

TEST_CASE("schedule-free training leaves for every tier and comes back, evaluations among it, and no bit changes") {
  for (TinySetup setup : evaluated_setups()) {
    setup.threads = 1;
    setup.accumulates = false;
    CAPTURE(setup.adapter);
    CAPTURE(name_of(setup.dtype));
    CAPTURE(setup.masters);
    const ModeJobs jobs(setup);
    const auto outcome = [&](const std::string& lines) {
      std::optional<train::JobTiers> tiers;
      TinyTraining training = jobs.training(lines, tiers);
      return outcome_with_evaluations(training);
    };
    const TinyOutcome plain = outcome(kPlainJob);
    for (const char* home : {"host", "disk"}) {
      for (const char* plan : {"fixed", "auto"}) {
        CAPTURE(home);
        CAPTURE(plan);
        CHECK(outcome(fmt::format("optimizer_offload: {}\nmemory: {{plan: {}}}\n", home, plan)) == plain);
        const char* weights = setup.adapter.empty() ? "parameter_offload" : "layer_offloading";
        CHECK(outcome(fmt::format("{0}: {1}\noptimizer_offload: {1}\nmemory: {{plan: {2}}}\n", weights, home, plan)) ==
              plain);
      }
    }
    if (setup.masters) check_budgets(jobs);
  }
}

TEST_CASE("the last evaluation is that of the saved adapter, and however many there are, the run is the same") {
  const TinyJob job;
  const std::vector<std::string> base = {"--optimizer",    "schedule_free_adamw",
                                         "--lr_scheduler", "constant",
                                         "--warmup_steps", "5",
                                         "--val_set_size", "8",
                                         "--max_steps",    "12",
                                         "--bf16",         "false"};
  const Finished often = run_spillway(job.train("often", base + std::vector<std::string>{"--eval_steps", "1"}));
  CAPTURE(often.err);
  REQUIRE(often.status == 0);
  REQUIRE(run_spillway(job.train("once", base + std::vector<std::string>{"--eval_steps", "12"})).status == 0);
  CHECK(job.adapter("often") == job.adapter("once"));
  CHECK(job.losses("often") == job.losses("once"));

  const std::string resumed = (job.output("often") / "checkpoint-9").string();
  REQUIRE(run_spillway(job.train("rest", base + std::vector<std::string>{"--resume_from_checkpoint", resumed,
                                                                         "--eval_steps", "12"}))
              .status == 0);
  CHECK(job.adapter("rest") == job.adapter("once"));

  const Finished again =
      run_spillway(job.train("again", {"--lora_model_dir", job.output("once").string(), "--val_set_size", "8",
                                       "--max_steps", "1", "--bf16", "false", "--eval_on_start", "true"}));
  CAPTURE(again.err);
  REQUIRE(again.status == 0);
  const double last = evaluation_losses(job.output("once")).at(12);
  CHECK(std::abs(evaluation_losses(job.output("again")).at(0) - last) <= 1e-6 * last);
}

TEST_CASE("eval_delay keeps evaluations from the first steps or epochs, as transformers does") {
  const TinyJob job;
  const auto evaluated = [&](const std::string& name, const std::vector<std::string>& more) {
    const std::vector<std::string> base = {"--val_set_size", "8", "--max_steps", "6"};
    REQUIRE(run_spillway(job.train(name, base + more)).status == 0);
    std::vector<int64_t> steps;
    for (const auto& [step, loss] : evaluation_losses(job.output(name))) steps.push_back(step);
    return steps;
  };
  CHECK(evaluated("all", {"--eval_steps", "2"}) == std::vector<int64_t>{2, 4, 6});
  CHECK(evaluated("steps", {"--eval_steps", "2", "--eval_delay", "4"}) == std::vector<int64_t>{4, 6});
  CHECK(evaluated("late", {"--eval_steps", "2", "--eval_delay", "99"}) == std::vector<int64_t>{6});
  // By epochs, of which the first are left out.
  const std::vector<std::string> epochs = {"--max_steps", "-1", "--num_epochs", "3", "--evals_per_epoch", "1"};
  const std::vector<int64_t> all = evaluated("epochs", epochs);
  REQUIRE(all.size() == 3);
  CHECK(evaluated("second", epochs + std::vector<std::string>{"--eval_delay", "2"}) ==
        std::vector<int64_t>(all.begin() + 1, all.end()));
}

TEST_CASE("a schedule-free optimizer warms up by itself, from the first step on") {
  const TinyJob job;
  const auto rates = [&](const std::string& name, const std::vector<std::string>& more) {
    const std::vector<std::string> base = {
        "--optimizer", "schedule_free_adamw", "--warmup_steps", "4", "--max_steps", "6", "--learning_rate", "0.01"};
    REQUIRE(run_spillway(job.train(name, base + more)).status == 0);
    std::vector<double> result;
    const std::string text = read_file(job.output(name) / "metrics.jsonl", 1 << 24);
    for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
      result.push_back(
          nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin)).value("learning_rate", -1.0));
    return result;
  };
  CHECK(rates("constant", {"--lr_scheduler", "constant"}) ==
        std::vector<double>{0.01 * 0.25, 0.01 * 0.5, 0.01 * 0.75, 0.01, 0.01, 0.01});
  // Beside the schedule's own, as in transformers.
  CHECK(rates("both", {"--lr_scheduler", "constant_with_warmup"}) ==
        std::vector<double>{0, 0.01 * 0.25 * 0.5, 0.01 * 0.5 * 0.75, 0.01 * 0.75, 0.01, 0.01});
}
