// A plan never changes the result: whatever is recomputed, however many threads run, every bit stays. And what the plan
// promises of memory: less with recomputation, hardly a gap in the arena.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/math.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "model/decoder/decoder.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_outcome.h"
#include "tests/support/video_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kPlanSteps = 4;

TinyOutcome train_tiny(const std::filesystem::path& model, const TinySetup& setup, size_t accumulation) {
  TinyTraining training(model, setup);
  return outcome_of(training, kPlanSteps, accumulation);
}

void check_equal(const TinyOutcome& a, const TinyOutcome& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.norms == b.norms);
  CHECK(a.state == b.state);
}

int64_t device_peak(const train::Job& job, int threads) {
  return train::plan_job(job, Machine{.threads = threads}).plan.peaks[0].bytes;
}

TinySetup with_activations(TinySetup setup, std::optional<ActivationPolicy> activations) {
  setup.activations = activations;
  return setup;
}

// Keep, recompute and budgets between them.
void check_plans(const std::filesystem::path& model, const TinySetup& setup, size_t accumulation) {
  const TinyOutcome kept = train_tiny(model, setup, accumulation);
  TinySetup other = with_activations(setup, ActivationPolicy::kRecompute);
  check_equal(kept, train_tiny(model, other, accumulation));

  const int64_t most = device_peak(tiny_job(model, setup), setup.threads);
  const int64_t least =
      device_peak(tiny_job(model, with_activations(setup, ActivationPolicy::kRecompute)), setup.threads);
  CHECK(least < most);
  other = with_activations(setup, std::nullopt);
  for (const int64_t thirds : {1, 2}) {
    other.device_budget = least + (most - least) * thirds / 3;
    check_equal(kept, train_tiny(model, other, accumulation));
  }
}

enum class Method : uint8_t { kFull, kLora, kLoraWithDropout };

TinySetup planned_setup(Method method, DType dtype, bool accumulates) {
  return {.adapter = method == Method::kFull ? "" : "adapter",
          .dtype = dtype,
          .dropout = method == Method::kLoraWithDropout ? 0.3 : 0,
          .accumulates = accumulates,
          .threads = 1};
}

// Returns how much more memory the buffers that the planner may place take than the largest sum of their live bytes, as
// a share of that.
double packing_loss(const train::Job& job, int threads) {
  const Plan plan = train::plan_job(job, Machine{.threads = threads}).plan;
  int64_t fixed = 0;
  for (const Buffer& buffer : plan.schedule.buffers) fixed += buffer.fixed ? align_up(buffer.bytes, int64_t{64}) : 0;
  const auto bound = static_cast<double>(plan.peaks[0].lower_bound - fixed);
  return static_cast<double>(plan.peaks[0].bytes - fixed) / bound - 1;
}

}  // namespace

TEST_CASE("no plan changes a bit of any tiny model's training") {
  for (const std::string model : kTinyModels) {
    for (const Method method : {Method::kFull, Method::kLora}) {
      CAPTURE(model);
      CAPTURE(static_cast<int>(method));
      check_plans(kGoldenModels / model, planned_setup(method, DType::kBF16, false), 1);
    }
  }
}

TEST_CASE("no plan changes a bit, whatever is trained, in f32 and bf16, with and without accumulation") {
  for (const std::string model : {"llama_bias", "mistral", "qwen3_tied"}) {
    for (const Method method : {Method::kFull, Method::kLora, Method::kLoraWithDropout}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const size_t accumulation : {1, 3}) {
          CAPTURE(model);
          CAPTURE(static_cast<int>(method));
          CAPTURE(name_of(dtype));
          CAPTURE(accumulation);
          check_plans(kGoldenModels / model, planned_setup(method, dtype, accumulation > 1), accumulation);
        }
      }
    }
  }
}

TEST_CASE("no plan of a group of micro-batches changes a bit, nor does the group, nor a short last step") {
  constexpr size_t kStep = 3;
  const auto outcome = [](const std::filesystem::path& model, const TinySetup& setup, int64_t group) {
    TinySetup in_groups = setup;
    in_groups.micro_batches = group;
    train::Job job = tiny_job(model, in_groups);
    job.graph.is_whole_step = group == kStep;
    TinyTraining training(job, setup.threads);
    TinyOutcome result;
    train_steps(training, 0, 2, kStep, result);
    train_steps(training, 2, 3, 1, result);
    train_steps(training, 3, 4, 2, result);
    collect_state(training, result);
    return result;
  };
  for (const std::string model : {"llama_bias", "mistral", "qwen3_tied"}) {
    for (const Method method : {Method::kFull, Method::kLora, Method::kLoraWithDropout}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        CAPTURE(model);
        CAPTURE(static_cast<int>(method));
        CAPTURE(name_of(dtype));
        TinySetup setup = planned_setup(method, dtype, true);
        const TinyOutcome kept = outcome(kGoldenModels / model, setup, 1);
        for (const int64_t group : {2, 3}) {
          CAPTURE(group);
          for (const ActivationPolicy activations : {ActivationPolicy::kKeep, ActivationPolicy::kRecompute}) {
            setup.activations = activations;
            check_equal(kept, outcome(kGoldenModels / model, setup, group));
          }
        }
      }
    }
  }
}

TEST_CASE("no plan changes a bit of DoRA") {
  for (const std::string model : {"llama_bias", "qwen3"}) {
    for (const double dropout : {0.0, 0.3}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const size_t accumulation : {1, 3}) {
          CAPTURE(model);
          CAPTURE(dropout);
          CAPTURE(name_of(dtype));
          CAPTURE(accumulation);
          TinySetup setup = planned_setup(Method::kLora, dtype, accumulation > 1);
          setup.adapter = "adapter_dora";
          setup.dropout = dropout;
          check_plans(kGoldenModels / model, setup, accumulation);
        }
      }
    }
  }
}

TEST_CASE("no plan changes a bit of training with noise on embeddings") {
  for (const Method method : {Method::kFull, Method::kLora, Method::kLoraWithDropout}) {
    CAPTURE(static_cast<int>(method));
    TinySetup setup = planned_setup(method, DType::kBF16, true);
    setup.noise = 5;
    check_plans(kGoldenModels / "gemma3", setup, 3);
  }
}

TEST_CASE("the number of threads changes no bit") {
  const std::filesystem::path model = kGoldenModels / "qwen3";
  for (const Method method : {Method::kFull, Method::kLoraWithDropout}) {
    TinySetup setup = planned_setup(method, DType::kBF16, true);
    const TinyOutcome alone = train_tiny(model, setup, 2);
    setup.activations = ActivationPolicy::kRecompute;
    for (setup.threads = 2; setup.threads <= 3; ++setup.threads) check_equal(alone, train_tiny(model, setup, 2));
  }
}

TEST_CASE("recomputation and the number of threads change no bit of a video transformer's training") {
  const TemporaryFolder folder;
  for (const std::string name : {"t2v", "odd"}) {
    for (const bool has_lora : {false, true}) {
      CAPTURE(name);
      CAPTURE(has_lora);
      const auto outcome = [&](ActivationPolicy activations, int threads) {
        train::Job job = video_job(name, has_lora, folder.path() / "out", tiered_machine());
        job.policy = saved_policy(activations);
        const std::vector<ClipBatch> batches = clip_batches(job, 2);
        TinyTraining training(std::move(job), threads);
        return outcome_of(training, 2, batches.size() / 2, batches);
      };
      const TinyOutcome kept = outcome(ActivationPolicy::kKeep, 1);
      check_equal(kept, outcome(ActivationPolicy::kRecompute, 1));
      check_equal(kept, outcome(ActivationPolicy::kKeep, 3));
    }
  }
}

TEST_CASE("dropout changes the training") {
  const std::filesystem::path model = kGoldenModels / "llama2";
  CHECK(train_tiny(model, planned_setup(Method::kLora, DType::kF32, true), 3).losses !=
        train_tiny(model, planned_setup(Method::kLoraWithDropout, DType::kF32, true), 3).losses);
}

TEST_CASE("noise on embeddings changes the training") {
  TinySetup setup = planned_setup(Method::kFull, DType::kF32, true);
  const TinyOutcome plain = train_tiny(kGoldenModels / "llama2", setup, 3);
  setup.noise = 5;
  CHECK(train_tiny(kGoldenModels / "llama2", setup, 3).losses != plain.losses);
}

TEST_CASE("packing comes within 5 % of the lower bound on every tiny model") {
  for (const std::string model : kTinyModels) {
    for (const Method method : {Method::kFull, Method::kLora, Method::kLoraWithDropout}) {
      for (const ActivationPolicy activations : {ActivationPolicy::kKeep, ActivationPolicy::kRecompute}) {
        CAPTURE(model);
        CAPTURE(static_cast<int>(method));
        CAPTURE(name_of(activations));
        const TinySetup setup = with_activations(planned_setup(method, DType::kBF16, true), activations);
        CHECK(packing_loss(tiny_job(kGoldenModels / model, setup), setup.threads) < 0.05);
      }
    }
  }
}

TEST_CASE("packing comes within 5 % of the lower bound on graphs of real models") {
  for (const char* name : {"smollm2-135m", "qwen2.5-0.5b", "llama-3-8b", "qwen3-8b"}) {
    const std::filesystem::path file = source_folder() / fmt::format("machines/models/{}.json", name);
    const DecoderConfig model = parse_decoder_config(read_file(file, kMiB), name);
    for (const bool lora : {false, true}) {
      for (const ActivationPolicy activations : {ActivationPolicy::kKeep, ActivationPolicy::kRecompute}) {
        CAPTURE(name);
        CAPTURE(lora);
        CAPTURE(name_of(activations));
        train::Job job;
        job.model = make_decoder(model);
        job.graph.model = {.dtype = DType::kBF16, .tokens = 2048, .max_sequences = 1024, .sequence_len = 512};
        job.graph.model.train_base = !lora;
        if (lora) job.graph.model.lora = LoraOptions{.r = 16, .alpha = 32, .dropout = 0.05};
        job.graph.accumulates = true;
        job.policy = saved_policy(activations);
        CHECK(packing_loss(job, 16) < 0.05);
      }
    }
  }
}
