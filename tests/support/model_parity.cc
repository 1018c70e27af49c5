#include "tests/support/model_parity.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/safetensors.h"

namespace spillway::testing {

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

// The results of the other libraries for a model and an adapter.
struct Golden {
  json check, curve;
  size_t row = 0;                                // of padding_idx, where the digest of the embedding has that row
  std::filesystem::path gradients{}, weights{};  // whole tensors, where they are kept
};

Golden golden_of(const std::string& model, const TinySetup& setup) {
  const std::filesystem::path folder = kGoldenModels / model;
  const std::string& adapter = setup.adapter;
  // Variants of adapters have files of their own, "golden_saved.json", and more where the base is quantised.
  const size_t end = std::min(adapter.find('_'), adapter.size());
  std::string stem =
      fmt::format("golden{}{}", end == adapter.size() ? "_" : adapter.substr(end), setup.linear_storage ? "_nf4" : "");
  if (!setup.config_overrides.empty()) stem = adapter.empty() ? "golden_padded" : stem + "_padded";
  if (const std::filesystem::path file = folder / (stem + ".json"); std::filesystem::exists(file)) {
    const json golden = read_json(file);
    return {golden["check"], golden["curve"], golden.value("row", size_t{0}), {}, folder / (stem + ".safetensors")};
  }
  if (setup.router_aux_loss_coef > 0) {
    const json golden = read_json(folder / "golden_balance.json");
    REQUIRE(golden["router_aux_loss_coef"].get<double>() == setup.router_aux_loss_coef);
    return {golden["check"], golden["curve"]};
  }
  if (setup.objective) {
    const json weighted = read_json(folder / fmt::format("golden_{}.json", setup.objective->name()));
    return {weighted["check"], weighted["full"]};
  }
  const json all = read_json(folder / "golden.json");
  if (adapter.empty())
    return {all["check"], all["full"], 0, folder / "golden_grads.safetensors", folder / "golden_full.safetensors"};
  if (adapter == "adapter")
    return {all["lora"]["check"], all["lora"]["curve"], 0, {}, folder / "golden_lora.safetensors"};
  return {all["rslora"]["check"], all["rslora"]["curve"]};
}

// PEFT's names have a prefix, those of the modules to save, too.
std::string golden_name(const TinySetup& setup, const std::string& weight) {
  return setup.adapter.empty() ? weight : adapter_tensor_name(weight);
}

void check_row(const std::vector<double>& table, const json& expected, size_t row) {
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(table[row * expected.size() + i] - expected[i].get<double>()) < 1e-5);
}

struct Tolerance {
  double loss, norm;  // relative
};

// The loss of a step, and the norm of its gradients.
struct StepNumbers {
  double loss, norm;
};

std::vector<StepNumbers> trained_steps(TinyTraining& training, const json& curve) {
  std::vector<StepNumbers> steps;
  for (const json& batches : tiny_batches()["train"]) {
    std::vector<FlatBatch> micro_batches;
    for (const json& batch : batches) micro_batches.emplace_back(batch);
    const size_t index = steps.size();
    const double loss = training.accumulate(micro_batches, curve["learning_rate"][index], static_cast<int64_t>(index));
    steps.push_back({loss, training.update()});
  }
  return steps;
}

void check_golden_steps(TinyTraining& training, const json& curve, const Tolerance& tolerance) {
  const std::vector<StepNumbers> steps = trained_steps(training, curve);
  for (size_t step = 0; step < steps.size(); ++step) {
    CAPTURE(step);
    CHECK(steps[step].loss == doctest::Approx(curve["loss"][step].get<double>()).epsilon(tolerance.loss));
    CHECK(steps[step].norm == doctest::Approx(curve["grad_norm"][step].get<double>()).epsilon(tolerance.norm));
  }
}

// Holds the mean deviation of the steps to the tolerance.
void check_golden_steps_on_average(TinyTraining& training, const json& curve, const Tolerance& tolerance) {
  const std::vector<StepNumbers> steps = trained_steps(training, curve);
  double loss = 0, norm = 0;
  for (size_t step = 0; step < steps.size(); ++step) {
    const auto golden_loss = curve["loss"][step].get<double>(), golden_norm = curve["grad_norm"][step].get<double>();
    loss += std::abs(steps[step].loss / golden_loss - 1);
    norm += std::abs(steps[step].norm / golden_norm - 1);
  }
  const auto count = static_cast<double>(steps.size());
  CHECK(loss / count <= tolerance.loss);
  CHECK(norm / count <= tolerance.norm);
}

}  // namespace

void check_gradients(const std::string& model, const TinySetup& setup) {
  const Golden golden = golden_of(model, setup);
  TinyTraining training(kGoldenModels / model, setup);
  const std::vector<FlatBatch> check = {FlatBatch(tiny_batches()["check"])};
  CHECK(training.accumulate(check, 0, 0) == doctest::Approx(golden.check["loss"].get<double>()).epsilon(1e-5));
  if (golden.check.contains("aux_loss")) {
    REQUIRE(training.session().model_metrics().front().key == "aux_loss");
    CHECK(training.session().observed().back().front() ==
          doctest::Approx(golden.check["aux_loss"].get<double>()).epsilon(1e-5));
  }
  const auto total = golden.check["grad_norm"].get<double>();
  REQUIRE(training.trained().size() == golden.check["grad_norms"].size());
  const bool complete = std::filesystem::is_regular_file(golden.gradients);
  for (const train::TrainedWeight& t : training.trained()) {
    const std::string& name = training.name(t.weight);
    CAPTURE(name);
    const std::vector<double> gradient = training.numbers(t.accumulator);
    const auto expected_norm = golden.check["grad_norms"].at(golden_name(setup, name)).get<double>();
    CHECK(std::abs(norm(gradient) - expected_norm) < 1e-5 * total);
    if (complete) CHECK(norm(difference(gradient, stored(SafetensorsFile(golden.gradients), name))) < 1e-5 * total);
  }
  CHECK(training.update() == doctest::Approx(total).epsilon(1e-4));
}

void check_curve(const std::string& model, const TinySetup& setup) {
  const Golden golden = golden_of(model, setup);
  TinyTraining training(kGoldenModels / model, setup);
  std::vector<std::vector<double>> before;
  for (const train::TrainedWeight& t : training.trained()) before.push_back(training.numbers(t.weight));
  check_golden_steps(training, golden.curve, {.loss = 1e-4, .norm = 1e-3});
  const bool complete = std::filesystem::is_regular_file(golden.weights);
  for (size_t i = 0; i < training.trained().size(); ++i) {
    const ValueId weight = training.trained()[i].weight;
    const std::string& name = training.name(weight);
    CAPTURE(name);
    const json& digest = golden.curve["final"].at(golden_name(setup, name));
    const auto change = digest["change"].get<double>();
    const std::vector<double> after = training.numbers(weight);
    if (digest.contains("row")) check_row(after, digest["row"], golden.row);
    CHECK(norm(after) == doctest::Approx(digest["norm"].get<double>()).epsilon(1e-4));
    CHECK(std::abs(norm(difference(after, before[i])) - change) < 1e-3 * change);
    for (size_t k = 0; k < 8; ++k) {
      CHECK(std::abs(after[k * (after.size() - 1) / 7] - digest["samples"][k].get<double>()) < 1e-4);
    }
    if (complete) CHECK(norm(difference(after, stored(SafetensorsFile(golden.weights), name))) < 1e-3 * change);
  }
}

void check_bf16_curve(const std::string& model, TinySetup setup) {
  setup.dtype = DType::kBF16;
  TinyTraining training(kGoldenModels / model, setup);
  const Tolerance tolerance{.loss = 0.01, .norm = 0.05};
  const json curve = golden_of(model, setup).curve;
  // A router of bf16 numbers now and then chooses another expert than one of f32, which of the instruction sets says
  // when: the norm of that step is another by up to a tenth.
  const auto& parameters = training.training().model.parameters;
  const bool is_mixture =
      std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.is_of_mixture(); });
  is_mixture ? check_golden_steps_on_average(training, curve, tolerance)
             : check_golden_steps(training, curve, tolerance);
}

}  // namespace spillway::testing
