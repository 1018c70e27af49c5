// Loss, gradients and training curves of tiny models against transformers, torch and peft: tests/golden/models, made by
// tools/make_model_goldens.py. Everything runs through the real pipeline, plan and all, in f32.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

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

// PEFT's names have a prefix, those of the modules to save, too.
std::string golden_name(const TinySetup& setup, const std::string& weight) {
  return setup.adapter.empty() ? weight : adapter_tensor_name(weight);
}

// Loss and gradients of the batch "check".
void check_gradients(const std::filesystem::path& model, const TinySetup& setup, const json& golden) {
  TinyTraining training(model, setup);
  const std::vector<FlatBatch> check = {FlatBatch(tiny_batches()["check"])};
  CHECK(training.accumulate(check, 0, 0) == doctest::Approx(golden["loss"].get<double>()).epsilon(1e-5));
  const auto total = golden["grad_norm"].get<double>();
  REQUIRE(training.trained().size() == golden["grad_norms"].size());
  const bool complete = setup.adapter.empty() && std::filesystem::is_regular_file(model / "golden_grads.safetensors");
  for (const train::TrainedWeight& t : training.trained()) {
    const std::string& name = training.name(t.weight);
    CAPTURE(name);
    const std::vector<double> gradient = training.numbers(t.accumulator);
    CHECK(std::abs(norm(gradient) - golden["grad_norms"].at(golden_name(setup, name)).get<double>()) < 1e-5 * total);
    if (complete) {
      const std::vector<double> expected = stored(SafetensorsFile(model / "golden_grads.safetensors"), name);
      CHECK(norm(difference(gradient, expected)) < 1e-5 * total);
    }
  }
  CHECK(training.update() == doctest::Approx(total).epsilon(1e-4));
}

// 20 steps of AdamW, and the weights after them.
void check_curve(const std::filesystem::path& model, const TinySetup& setup, const json& golden,
                 const std::string& final_file) {
  TinyTraining training(model, setup);
  std::vector<std::vector<double>> before;
  for (const train::TrainedWeight& t : training.trained()) before.push_back(training.numbers(t.weight));
  for (size_t step = 0; step < tiny_batches()["train"].size(); ++step) {
    CAPTURE(step);
    std::vector<FlatBatch> micro_batches;
    for (const json& batch : tiny_batches()["train"][step]) micro_batches.emplace_back(batch);
    const auto index = static_cast<int64_t>(step);
    CHECK(training.accumulate(micro_batches, golden["learning_rate"][step], index) ==
          doctest::Approx(golden["loss"][step].get<double>()).epsilon(1e-4));
    CHECK(training.update() == doctest::Approx(golden["grad_norm"][step].get<double>()).epsilon(1e-3));
  }
  const bool complete = std::filesystem::is_regular_file(model / final_file);
  for (size_t i = 0; i < training.trained().size(); ++i) {
    const ValueId weight = training.trained()[i].weight;
    const std::string& name = training.name(weight);
    CAPTURE(name);
    const json& digest = golden["final"].at(golden_name(setup, name));
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
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_gradients(kGoldenModels / model, {}, read_json(kGoldenModels / model / "golden.json")["check"]);
  }
}

TEST_CASE("20 steps of full fine-tuning follow torch's AdamW") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_curve(kGoldenModels / model, {}, read_json(kGoldenModels / model / "golden.json")["full"],
                "golden_full.safetensors");
  }
}

TEST_CASE("loss and gradients of adapters equal those of peft") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_gradients(kGoldenModels / model, {.adapter = "adapter"},
                    read_json(kGoldenModels / model / "golden.json")["lora"]["check"]);
  }
}

TEST_CASE("20 steps of LoRA follow peft with torch's AdamW") {
  for (const std::string model : kTinyModels) {
    CAPTURE(model);
    check_curve(kGoldenModels / model, {.adapter = "adapter"},
                read_json(kGoldenModels / model / "golden.json")["lora"]["curve"], "golden_lora.safetensors");
  }
  const json rslora = read_json(kGoldenModels / "llama2" / "golden.json")["rslora"];
  check_gradients(kGoldenModels / "llama2", {.adapter = "adapter_rslora"}, rslora["check"]);
  check_curve(kGoldenModels / "llama2", {.adapter = "adapter_rslora"}, rslora["curve"], "");
}

// Of llama2 the embedding and all norms, so that its head is left; qwen2_tied's embedding and head with four more rows.
TEST_CASE("modules to save are trained in full beside LoRA as peft trains them") {
  for (const std::string model : {"llama2", "qwen2_tied"}) {
    CAPTURE(model);
    const json golden = read_json(kGoldenModels / model / "golden_saved.json");
    check_gradients(kGoldenModels / model, {.adapter = "adapter_saved"}, golden["check"]);
    check_curve(kGoldenModels / model, {.adapter = "adapter_saved"}, golden["curve"], "");
  }
}

TEST_CASE("bf16 follows the curves of f32 within its precision") {
  for (const std::string model : kTinyModels) {
    const json golden = read_json(kGoldenModels / model / "golden.json");
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      const json& curve = *adapter ? golden["lora"]["curve"] : golden["full"];
      TinyTraining training(kGoldenModels / model, {.adapter = adapter, .dtype = DType::kBF16});
      for (size_t step = 0; step < tiny_batches()["train"].size(); ++step) {
        CAPTURE(step);
        std::vector<FlatBatch> micro_batches;
        for (const json& batch : tiny_batches()["train"][step]) micro_batches.emplace_back(batch);
        const auto index = static_cast<int64_t>(step);
        CHECK(training.accumulate(micro_batches, curve["learning_rate"][step], index) ==
              doctest::Approx(curve["loss"][step].get<double>()).epsilon(0.01));
        CHECK(training.update() == doctest::Approx(curve["grad_norm"][step].get<double>()).epsilon(0.05));
      }
    }
  }
}
