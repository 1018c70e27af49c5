// Tests training parts of a model at different rates: some weights, some rows of a weight, B faster than A.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "job/weight_groups.h"
#include "model/model.h"
#include "model/storages/quantised.h"
#include "ops/optimizers/sgd/sgd.h"
#include "tests/support/tiny_outcome.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

const std::string kEmbedding = "model.embed_tokens.weight", kUp = "model.layers.1.mlp.up_proj.weight",
                  kNorm = "model.norm.weight";

// Plain SGD, whose step is the gradient.
train::Job parts_job(bool accumulates, const std::string& overrides = {}) {
  train::Job job = tiny_job(
      kGoldenModels / "qwen3",
      {.dtype = DType::kF32, .config_overrides = overrides, .accumulates = accumulates, .optimizer = &ops::kSgd});
  job.graph.optimizer_options = ops::options_of(ops::kSgd);
  job.graph.max_grad_norm = 0;
  return job;
}

using Weights = std::map<std::string, std::vector<double>>;

// The trained weights before any step, or after one.
Weights weights_after(train::Job job, int64_t steps, double* norm = nullptr) {
  TinyTraining training(std::move(job), 2);
  TinyOutcome outcome;
  train_steps(training, 0, steps, training.job().graph.accumulates ? 2 : 1, outcome);
  if (norm) *norm = outcome.norms.at(0);
  Weights weights;
  for (const train::TrainedWeight& t : training.trained())
    weights[training.name(t.weight)] = training.numbers(t.weight);
  return weights;
}

}  // namespace

TEST_CASE("weights that are unfrozen get the step of full fine-tuning, and nothing else is trained") {
  for (const bool accumulates : {false, true}) {
    CAPTURE(accumulates);
    const Weights full = weights_after(parts_job(accumulates), 1);
    train::Job job = parts_job(accumulates);
    job.graph.model.unfrozen = {kUp, kNorm};
    const Weights some = weights_after(job, 1);
    CHECK(some.size() == 2);
    CHECK(some.at(kUp) == full.at(kUp));
    CHECK(some.at(kNorm) == full.at(kNorm));
  }
}

TEST_CASE("rows that are not named have no gradient: they stay, and do not count for the norm") {
  for (const bool accumulates : {false, true}) {
    CAPTURE(accumulates);
    const Weights before = weights_after(parts_job(accumulates), 0), full = weights_after(parts_job(accumulates), 1);
    train::Job job = parts_job(accumulates);
    job.graph.model.unfrozen = {kEmbedding};
    job.graph.trained_rows[kEmbedding] = {{2, 3}, {20, 60}};
    double norm = 0;
    const std::vector<double> rows = weights_after(job, 1, &norm).at(kEmbedding);
    const size_t width = full.at(kNorm).size();
    double squares = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t row = i / width;
      const bool is_trained = (row >= 2 && row < 5) || (row >= 20 && row < 80);
      REQUIRE(rows[i] == (is_trained ? full : before).at(kEmbedding)[i]);
      const double gradient = (rows[i] - before.at(kEmbedding)[i]) / 0.01;
      squares += gradient * gradient;
    }
    CHECK(squares > 0);
    CHECK(norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-3));
  }
}

TEST_CASE("the row of pad_token_id stays where it is one of the rows that are trained") {
  const auto job_of = [](const char* overrides) {
    train::Job job = parts_job(false, overrides);
    job.graph.model.unfrozen = {kEmbedding};
    job.graph.trained_rows[kEmbedding] = {{30, 20}};
    return job;
  };
  const std::vector<double> before = weights_after(job_of(""), 0).at(kEmbedding),
                            plain = weights_after(job_of(""), 1).at(kEmbedding),
                            padded = weights_after(job_of(R"({"pad_token_id": 42})"), 1).at(kEmbedding);
  constexpr size_t kWidth = 32, kRow = 42;
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_padding = i / kWidth == kRow;
    REQUIRE(padded[i] == (is_padding ? before : plain)[i]);
    changed += is_padding && plain[i] != before[i];
  }
  CHECK(changed == kWidth);
}

TEST_CASE("with LoRA+ B and vectors take the ratio's multiple of the step, A its own, and all but biases decays") {
  constexpr double kRate = 0.01, kDecay = 0.1;  // kRate is train_steps'
  const auto after = [](double ratio, int64_t steps, double decay) {
    train::Job job =
        tiny_job(kGoldenModels / "qwen3",
                 {.adapter = "adapter", .dtype = DType::kF32, .accumulates = false, .optimizer = &ops::kSgd});
    job.graph.optimizer_options = ops::options_of(ops::kSgd);
    job.graph.optimizer_options.set(ops::kWeightDecay.name, decay);
    job.graph.max_grad_norm = 0;
    job.graph.model.lora->modules_to_save = {"model.norm"};
    train::WeightGroups groups = train::loraplus_groups(parameters_of(*job.model, job.graph.model), ratio);
    job.graph.rate_ratios = std::move(groups.rate_ratios);
    job.graph.undecayed = std::move(groups.undecayed);
    job.graph.decays_all = true;
    job.config.adapter->model_dir.clear();
    return weights_after(job, steps);
  };
  const Weights before = after(1, 0, 0), plain = after(1, 1, 0), fast = after(16, 1, 0), decayed = after(16, 1, kDecay);
  for (const auto& [name, start] : before) {
    CAPTURE(name);
    const double factor = name.find("lora_A") == std::string::npos ? 16 : 1;
    for (size_t i = 0; i < start.size(); ++i) {
      const double step = plain.at(name)[i] - start[i], decay = -kRate * kDecay * start[i];
      REQUIRE(std::abs(fast.at(name)[i] - start[i] - factor * step) <= 1e-6 * (std::abs(start[i]) + 1));
      REQUIRE(std::abs(decayed.at(name)[i] - start[i] - factor * (step + decay)) <= 1e-6 * (std::abs(start[i]) + 1));
    }
  }
}

TEST_CASE("beside a rate of embeddings LoRA+ raises the rates of B alone, whatever their group") {
  const train::Job job = tiny_job(kGoldenModels / "qwen3", {.adapter = "adapter", .dtype = DType::kF32});
  const ParameterTable parameters = parameters_of(*job.model, job.graph.model);
  train::RateRatios ratios;
  for (const Parameter& p : parameters)
    if (p.trained && p.name.find("q_proj") != std::string::npos) ratios[p.name] = 0.5;
  const train::RateRatios before = ratios;
  train::raise_rates_of_b(parameters, 16, ratios);
  int64_t raised = 0;
  for (const Parameter& p : parameters) {
    if (!p.trained) continue;
    const double own = before.contains(p.name) ? 0.5 : 1;
    const bool is_b = p.name.find("lora_B") != std::string::npos;
    CAPTURE(p.name);
    CHECK((ratios.contains(p.name) ? ratios.at(p.name) : 1) == (is_b ? 16 * own : own));
    raised += is_b;
  }
  CHECK(raised > 0);
}

TEST_CASE(
    "groups take the step of their own rate, embeddings do not decay beside them, and other weights do as before") {
  constexpr double kRate = 0.01, kDecay = 0.1;  // kRate is train_steps'
  const auto after = [&](const std::optional<config::LrGroups>& said, double decay, int64_t steps) {
    train::Job job = parts_job(false);
    job.graph.optimizer_options.set(ops::kWeightDecay.name, decay);
    if (said) {
      const auto groups = train::weight_groups(parameters_of(*job.model, job.graph.model), *said, false);
      job.graph.rate_ratios = groups.rate_ratios;
      job.graph.undecayed = groups.undecayed;
    }
    return weights_after(job, steps);
  };
  const config::LrGroups said{
      .learning_rate = kRate,
      .embedding_lr = kRate / 2,
      .groups = {{"o", {"self_attn.o_proj.weight", "norm"}, 3 * kRate, "o"}, {"first", {"layers.0."}, 0, "first"}}};
  const Weights before = after({}, 0, 0), plain = after({}, 0, 1), decayed = after({}, kDecay, 1);
  const Weights grouped = after(said, kDecay, 1);
  const auto has = [](const std::string& name, const char* part) { return name.find(part) != std::string::npos; };
  for (const auto& [name, start] : before) {
    CAPTURE(name);
    const bool is_embedding = has(name, "embed_tokens") || has(name, "lm_head"), is_norm = has(name, "norm");
    const double factor = is_embedding ? 0.5 : is_norm ? 1 : has(name, "o_proj") ? 3 : has(name, "layers.0.") ? 0 : 1;
    for (size_t i = 0; i < start.size(); ++i) {
      const double step = (is_embedding ? plain : decayed).at(name)[i] - start[i];
      REQUIRE(std::abs(grouped.at(name)[i] - start[i] - factor * step) <= 2e-6 * (std::abs(start[i]) + 1));
    }
  }
}

TEST_CASE("a model that begins with fresh weights has transformers' numbers, and none of its folder's") {
  for (const auto& [name, norm] : {std::pair{"qwen2", 1.0}, {"gemma2", 0.0}}) {
    CAPTURE(name);
    constexpr double kDeviation = 0.2;  // initializer_range of the model's config
    train::Job job = tiny_job(kGoldenModels / name, {.dtype = DType::kF32});
    job.model = read_model(kGoldenModels / name, R"({"pad_token_id": 3})");
    const Weights of_folder = weights_after(job, 0);
    job.config.model.reinitialised = true;
    const Weights fresh = weights_after(job, 0);
    CHECK(weights_after(job, 0) == fresh);
    job.config.seed = 7;
    const Weights others = weights_after(job, 0);
    for (const auto& [weight, values] : fresh) {
      CAPTURE(weight);
      if (weight.find("norm") != std::string::npos) {
        CHECK(std::all_of(values.begin(), values.end(), [norm = norm](double value) { return value == norm; }));
        continue;
      }
      if (weight.ends_with(".bias")) {
        CHECK(std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }));
        continue;
      }
      CHECK(values != of_folder.at(weight));
      CHECK(values != others.at(weight));
      double sum = 0, squares = 0;
      for (const double value : values) sum += value, squares += value * value;
      const auto count = static_cast<double>(values.size());
      CHECK(std::abs(sum / count) < 5 * kDeviation / std::sqrt(count));
      CHECK(std::sqrt(squares / count) == doctest::Approx(kDeviation).epsilon(5 / std::sqrt(2 * count)));
    }
    const std::vector<double>& embedding = fresh.at(kEmbedding);
    const auto width = static_cast<std::ptrdiff_t>(fresh.at(kNorm).size());
    const auto row = embedding.begin() + 3 * width;
    CHECK(std::all_of(row, row + width, [](double value) { return value == 0; }));
    CHECK(*(row - 1) != 0);
    CHECK(*(row + width) != 0);
  }
}

TEST_CASE("routers, norms and activations with numbers of their own begin afresh as in transformers") {
  const auto fresh = [](const char* model) {
    train::Job job = tiny_job(kGoldenModels / model, {.dtype = DType::kF32});
    job.config.model.reinitialised = true;
    return weights_after(job, 0);
  };
  const auto check = [](const Weights& weights, std::string_view ending, double content) {
    int64_t found = 0;
    for (const auto& [name, values] : weights) {
      if (!name.ends_with(ending)) continue;
      CAPTURE(name);
      ++found;
      for (const double value : values) CHECK(value == doctest::Approx(content).epsilon(1e-7));
    }
    CHECK(found > 0);
  };
  check(fresh("afmoe"), ".router.gate.weight", 0);
  const Weights nemotron = fresh("nemotron"), apertus = fresh("apertus");
  check(nemotron, "norm.weight", 1);
  check(nemotron, "norm.bias", 0);
  // XIELUActivation begins with softplus(alpha_p) = 0.8 and beta + softplus(alpha_n) = 0.8.
  check(apertus, ".alpha_p", std::log(std::expm1(0.8)));
  check(apertus, ".alpha_n", std::log(std::expm1(0.3)));
}

// As the _init_weights() of transformers 5.24 have it for these classes.
TEST_CASE("what decays in layers with a state, their gated norms, and buffers begin afresh as in transformers") {
  const auto fresh = [](const char* model) {
    train::Job job = tiny_job(kGoldenModels / model, {.dtype = DType::kF32});
    job.config.model.reinitialised = true;
    return job;
  };
  const auto are = [](const std::vector<double>& values, double content) {
    return std::all_of(values.begin(), values.end(), [&](double value) { return value == content; });
  };
  for (const char* model : {"qwen3_next", "qwen3_5", "granitemoehybrid", "falcon_h1", "bamba", "jamba"}) {
    CAPTURE(std::string(model));
    const bool is_mamba = !std::string_view(model).starts_with("qwen");
    int64_t found = 0;
    for (const auto& [name, values] : weights_after(fresh(model), 0)) {
      CAPTURE(name);
      const size_t row = std::string_view(model) == "jamba" ? 6 : values.size();  // that each channel has
      const bool is_of_state = name.find(is_mamba ? ".mamba." : ".linear_attn.") != std::string::npos;
      const bool is_norm = name.ends_with("norm.weight");
      if (is_norm) CHECK(are(values, is_mamba || is_of_state ? 1 : 0));
      if (name.ends_with("dt_bias") || name.ends_with(".D")) CHECK(are(values, 1));
      if (!name.ends_with("A_log")) continue;
      ++found;
      for (size_t i = 0; i < values.size(); ++i) {
        if (is_mamba) CHECK(values[i] == doctest::Approx(std::log(static_cast<double>(i % row + 1))));
        CHECK(values[i] >= std::log(0.01));
        CHECK(values[i] <= std::log(16.0));
      }
      CHECK_FALSE(are(values, values[0]));
    }
    CHECK(found > 0);
  }
  for (const auto& [model, content] : {std::pair{"deepseek_v3", 0.0F}, {"lfm2_moe", 0.0F}, {"gemma4", 1.0F}}) {
    CAPTURE(std::string(model));
    const TinyTraining training(fresh(model), 1);
    int64_t found = 0;
    for (const Parameter& p : training.training().model.parameters) {
      if (p.role != ParameterRole::kBuffer) continue;
      ++found;
      const std::vector<std::byte> bytes = training.bytes(p.value());
      for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, &bytes[at], sizeof(float));
        CHECK(value == content);
      }
    }
    CHECK(found > 0);
  }
}

// As the _init_weights() of transformers 5.24 have it: steps between time_step_min and time_step_max by their
// logarithms, 0.5 and 0.1 in this config, and torch's uniform numbers for out_proj over the root of the layers.
TEST_CASE("Nemotron-H's state spaces begin afresh with steps within their bounds, and less the more layers there are") {
  train::Job job = tiny_job(kGoldenModels / "nemotron_h", {.dtype = DType::kF32});
  job.config.model.reinitialised = true;
  const auto weights = weights_after(job, 0);
  for (const char* layer : {"model.layers.1.mixer.", "model.layers.3.mixer."}) {
    const auto of = [&](const char* name) { return weights.at(std::string(layer) + name); };
    const std::vector<double> biases = of("dt_bias"), rates = of("A_log"), products = of("out_proj.weight");
    for (size_t head = 0; head < biases.size(); ++head) {
      const double step = std::log1p(std::exp(biases[head]));
      CHECK(step > 0.1 - 1e-6);
      CHECK(step < 0.5 + 1e-6);
      CHECK(rates[head] == doctest::Approx(std::log(static_cast<double>(head + 1))));
      CHECK(of("D")[head] == 1);
    }
    CHECK(biases[0] != biases[1]);
    const double bound = 1 / std::sqrt(48.0 * 5);
    double largest = 0, sum = 0;
    for (const double value : products) {
      largest = std::max(largest, std::abs(value));
      sum += value * value;
    }
    CHECK(largest <= bound);
    CHECK(std::sqrt(sum / static_cast<double>(products.size())) ==
          doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.05));
  }
  // Its embedding has no padding_idx.
  const std::vector<double> table = weights.at("model.embeddings.weight");
  CHECK(table[71 * 32] != 0);
}

TEST_CASE("fresh magnitudes are the norms of rows, so that DoRA begins as LoRA does, and rows keep them") {
  const auto training = [](bool dora, const std::optional<LinearStorage>& storage) {
    train::Job job =
        tiny_job(kGoldenModels / "qwen3",
                 {.adapter = "adapter", .dtype = DType::kBF16, .accumulates = false, .linear_storage = storage});
    job.graph.model.lora->dora = dora;
    job.config.adapter->model_dir.clear();
    return TinyTraining(std::move(job), 1);
  };
  const LinearStorage nf4{quantised_storage({WeightCoding::kNf4, 64, true, DType::kBF16})};
  const std::vector<FlatBatch> check = {FlatBatch(tiny_batches()["check"])};
  for (const std::optional<LinearStorage>& storage : {std::optional<LinearStorage>(), std::optional(nf4)}) {
    TinyTraining dora = training(true, storage), lora = training(false, storage);
    int64_t magnitudes = 0;
    for (const train::TrainedWeight& t : dora.trained()) {
      const Parameter& p = dora.training().parameter_of(t);
      if (p.role != ParameterRole::kMagnitude) continue;
      ++magnitudes;
      CHECK(p.dtype == DType::kF32);
      for (const double norm : dora.numbers(t.weight)) CHECK(norm > 0);
    }
    CHECK(magnitudes == 14);
    CHECK(dora.accumulate(check, 0.01, 1) == lora.accumulate(check, 0.01, 1));
  }
}
