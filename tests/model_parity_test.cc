// Loss, gradients and training curves of tiny models against transformers, torch and peft: tests/golden/models, made by
// tools/make_model_goldens.py. Everything runs through the real pipeline, plan and all, in f32.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/safetensors.h"
#include "model/adapter.h"
#include "train/session.h"

using namespace spillway;
using nlohmann::json;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models";
constexpr const char* kModels[] = {"llama2", "llama32",    "llama_linear", "llama_bias", "mistral",
                                   "qwen2",  "qwen2_tied", "qwen3",        "qwen3_tied"};

json read_json(const std::filesystem::path& path) { return json::parse(read_file(path, 16 << 20)); }

const json& batches() {
  static const json kBatches = read_json(kGolden / "batches.json");
  return kBatches;
}

// A batch of the golden file as one stream.
struct FlatBatch {
  std::vector<int32_t> ids, labels, positions, seq_offsets;
  int64_t targets = 0;

  explicit FlatBatch(const json& sequences) {
    for (const json& sequence : sequences) {
      seq_offsets.push_back(static_cast<int32_t>(ids.size()));
      const auto tokens = sequence["input_ids"].get<std::vector<int32_t>>();
      const auto wanted = sequence["labels"].get<std::vector<int32_t>>();
      for (size_t i = 0; i < tokens.size(); ++i) {
        ids.push_back(tokens[i]);
        positions.push_back(static_cast<int32_t>(i));
        labels.push_back(i + 1 < tokens.size() ? wanted[i + 1] : -100);
        targets += labels.back() >= 0;
      }
    }
    seq_offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  [[nodiscard]] train::Stream stream() const { return {ids, labels, positions, seq_offsets}; }
};

struct Setup {
  std::string adapter;  // a folder below the model's; empty: full fine-tuning
  Treatment activations = Treatment::kKeep;
  DType dtype = DType::kF32;
};

// A job in memory, as `train` would set it up.
class Training {
 public:
  Training(const std::filesystem::path& model, const Setup& setup) {
    job_.config.base_model = model.string();
    job_.model = read_model_config(model);
    DecoderOptions& decoder = job_.graph.decoder;
    decoder.dtype = setup.dtype;
    decoder.tokens = 48;
    decoder.max_sequences = 5;
    decoder.train_base = setup.adapter.empty();
    if (!setup.adapter.empty()) {
      job_.config.lora_model_dir = (model / setup.adapter).string();
      decoder.lora = read_adapter_options(model / setup.adapter);
    }
    job_.graph.adamw = {0.9, 0.999, 1e-8, 0.01};
    job_.graph.accumulates = true;
    job_.policy.activations = setup.activations;
    planned_ = train::plan_job(job_, Machine{.threads = pool_.threads()}, 0);
    REQUIRE(planned_.plan.fits);
    session_ = std::make_unique<train::TrainingSession>(job_, planned_, pool_);
    const train::InitialState initial(job_);
    initial.load(job_, planned_.training, [&](ValueId id) { return session_->home(id); });
  }

  // Forward and backward of a whole step; the gradients stay. Returns the mean loss.
  double accumulate(const std::vector<FlatBatch>& micro_batches, int64_t step) {
    int64_t targets = 0, micro_step = 0;
    for (const FlatBatch& batch : micro_batches) targets += batch.targets;
    double loss = 0;
    for (const FlatBatch& batch : micro_batches) {
      loss += session_->micro_step(batch.stream(), 1.0f / static_cast<float>(targets), step, micro_step++);
    }
    return loss;
  }
  double update(double learning_rate, int64_t step) { return session_->update(learning_rate, step); }

  [[nodiscard]] const std::vector<train::TrainedWeight>& trained() const { return planned_.training.trained; }
  [[nodiscard]] const std::string& name(ValueId id) const { return planned_.training.graph.value(id).name; }
  [[nodiscard]] std::vector<double> numbers(ValueId id) const {
    const TensorView view = session_->home(id);
    return {view.as<float>(), view.as<float>() + view.elems()};
  }

 private:
  ThreadPool pool_{2};
  train::Job job_;
  train::PlannedJob planned_;
  std::unique_ptr<train::TrainingSession> session_;
};

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

std::vector<double> stored(const SafetensorsFile& file, const std::string& name) {
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    std::vector<float> values(static_cast<size_t>(tensor.elems()));
    file.read(tensor, 0, tensor.elems(), DType::kF32, values.data());
    return {values.begin(), values.end()};
  }
  FAIL("no tensor ", name);
  return {};
}

// Loss and gradients of the batch "check".
void check_gradients(const std::filesystem::path& model, const Setup& setup, const json& golden) {
  Training training(model, setup);
  CHECK(training.accumulate({FlatBatch(batches()["check"])}, 0) ==
        doctest::Approx(golden["loss"].get<double>()).epsilon(1e-5));
  const auto total = golden["grad_norm"].get<double>();
  REQUIRE(training.trained().size() == golden["grad_norms"].size());
  const bool complete = setup.adapter.empty() && std::filesystem::is_regular_file(model / "golden_grads.safetensors");
  for (const train::TrainedWeight& t : training.trained()) {
    const std::string& name = training.name(t.weight);
    CAPTURE(name);
    const std::vector<double> gradient = training.numbers(t.accumulator);
    CHECK(std::abs(norm(gradient) - golden["grad_norms"].at(name).get<double>()) < 1e-5 * total);
    if (complete) {
      const std::vector<double> expected = stored(SafetensorsFile(model / "golden_grads.safetensors"), name);
      CHECK(norm(difference(gradient, expected)) < 1e-5 * total);
    }
  }
  CHECK(training.update(0, 0) == doctest::Approx(total).epsilon(1e-4));
}

// 20 steps of AdamW, and the weights after them.
void check_curve(const std::filesystem::path& model, const Setup& setup, const json& golden,
                 const std::string& final_file) {
  Training training(model, setup);
  std::vector<std::vector<double>> before;
  for (const train::TrainedWeight& t : training.trained()) before.push_back(training.numbers(t.weight));
  for (size_t step = 0; step < batches()["train"].size(); ++step) {
    CAPTURE(step);
    std::vector<FlatBatch> micro_batches;
    for (const json& batch : batches()["train"][step]) micro_batches.emplace_back(batch);
    const auto index = static_cast<int64_t>(step);
    CHECK(training.accumulate(micro_batches, index) ==
          doctest::Approx(golden["loss"][step].get<double>()).epsilon(1e-4));
    CHECK(training.update(golden["learning_rate"][step], index) ==
          doctest::Approx(golden["grad_norm"][step].get<double>()).epsilon(1e-3));
  }
  const bool complete = std::filesystem::is_regular_file(model / final_file);
  for (size_t i = 0; i < training.trained().size(); ++i) {
    const ValueId weight = training.trained()[i].weight;
    const std::string& name = training.name(weight);
    CAPTURE(name);
    const json& digest = golden["final"].at(name);
    const auto change = digest["change"].get<double>();
    const std::vector<double> after = training.numbers(weight);
    CHECK(norm(after) == doctest::Approx(digest["norm"].get<double>()).epsilon(1e-4));
    CHECK(std::abs(norm(difference(after, before[i])) - change) < 1e-3 * change);
    for (size_t k = 0; k < 8; ++k) {
      CHECK(std::abs(after[k * (after.size() - 1) / 7] - digest["samples"][k].get<double>()) < 1e-4);
    }
    if (complete) CHECK(norm(difference(after, stored(SafetensorsFile(model / final_file), name))) < 1e-3 * change);
  }
}

}  // namespace

TEST_CASE("loss and gradients equal those of transformers") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    check_gradients(kGolden / model, {}, read_json(kGolden / model / "golden.json")["check"]);
  }
}

TEST_CASE("20 steps of full fine-tuning follow torch's AdamW") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    check_curve(kGolden / model, {}, read_json(kGolden / model / "golden.json")["full"], "golden_full.safetensors");
  }
}

TEST_CASE("loss and gradients of adapters equal those of peft") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    check_gradients(kGolden / model, {.adapter = "adapter"},
                    read_json(kGolden / model / "golden.json")["lora"]["check"]);
  }
}

TEST_CASE("20 steps of LoRA follow peft with torch's AdamW") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    check_curve(kGolden / model, {.adapter = "adapter"}, read_json(kGolden / model / "golden.json")["lora"]["curve"],
                "golden_lora.safetensors");
  }
  const json rslora = read_json(kGolden / "llama2" / "golden.json")["rslora"];
  check_gradients(kGolden / "llama2", {.adapter = "adapter_rslora"}, rslora["check"]);
  check_curve(kGolden / "llama2", {.adapter = "adapter_rslora"}, rslora["curve"], "");
}

TEST_CASE("recomputing activations changes no bit of a model's training") {
  for (const std::string model : {"llama_bias", "qwen3_tied"}) {
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      Training kept(kGolden / model, {.adapter = adapter});
      Training recomputed(kGolden / model, {.adapter = adapter, .activations = Treatment::kRecompute});
      for (int64_t step = 0; step < 3; ++step) {
        const std::vector<FlatBatch> micro_batches = {FlatBatch(batches()["train"][static_cast<size_t>(step)][0])};
        CHECK(kept.accumulate(micro_batches, step) == recomputed.accumulate(micro_batches, step));
        CHECK(kept.update(0.01, step) == recomputed.update(0.01, step));
      }
      for (size_t i = 0; i < kept.trained().size(); ++i) {
        CHECK(kept.numbers(kept.trained()[i].weight) == recomputed.numbers(recomputed.trained()[i].weight));
      }
    }
  }
}

TEST_CASE("bf16 follows the curves of f32 within its precision") {
  for (const std::string model : kModels) {
    const json golden = read_json(kGolden / model / "golden.json");
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      const json& curve = *adapter ? golden["lora"]["curve"] : golden["full"];
      Training training(kGolden / model, {.adapter = adapter, .dtype = DType::kBF16});
      for (size_t step = 0; step < batches()["train"].size(); ++step) {
        CAPTURE(step);
        std::vector<FlatBatch> micro_batches;
        for (const json& batch : batches()["train"][step]) micro_batches.emplace_back(batch);
        const auto index = static_cast<int64_t>(step);
        CHECK(training.accumulate(micro_batches, index) ==
              doctest::Approx(curve["loss"][step].get<double>()).epsilon(0.01));
        CHECK(training.update(curve["learning_rate"][step], index) ==
              doctest::Approx(curve["grad_norm"][step].get<double>()).epsilon(0.05));
      }
    }
  }
}
