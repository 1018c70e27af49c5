// Adapters that start as a part of their weights, beside peft: what they train, what is saved of them, and where the
// weights without that part live.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/safetensors.h"
#include "job/adapter_start.h"
#include "model/merge.h"
#include "model/storages/quantised.h"
#include "saved/saved_model.h"
#include "saved/state.h"
#include "tests/support/mode_jobs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

struct StartCase {
  std::string name;
  LoraStart start;
  bool dora = false;
  std::optional<LinearStorage> storage = {};
};

std::vector<StartCase> start_cases() {
  return {{"pissa", LoraStart::kPissa},
          {"pissa_dora", LoraStart::kPissa, true},
          {"olora", LoraStart::kOlora},
          {"loftq", LoraStart::kLoftq, false,
           LinearStorage{quantised_storage({WeightCoding::kNf4, 64, false, DType::kF32})}}};
}

TinySetup setup_of(const StartCase& c, DType dtype = DType::kF32) {
  return {
      .adapter = c.dora ? "adapter_dora" : "adapter", .start = c.start, .dtype = dtype, .linear_storage = c.storage};
}

const std::filesystem::path kModel = kGoldenModels / "llama2";

void save(TinyTraining& training, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  train::save_model(folder, {training.job(), train::read_base_files(training.job()), training.training(),
                             training.session().store()});
}

// Checks a merged folder, whose weights are those of the model's base, or for LoftQ its dequantised values.
void check_merged(const std::filesystem::path& folder, const json& expected) {
  const SafetensorsFolder merged(folder);
  for (const auto& [tensor, digest] : expected.items()) {
    CAPTURE(tensor);
    REQUIRE(merged.find(tensor) != nullptr);
    std::vector<float> values(static_cast<size_t>(merged.find(tensor)->elems()));
    merged.read(tensor, DType::kF32, values.data());
    double square = 0;
    for (const float value : values) square += static_cast<double>(value) * static_cast<double>(value);
    CHECK(std::sqrt(square) == doctest::Approx(digest["norm"].get<double>()).epsilon(1e-4));
    for (size_t i = 0; i < 8; ++i) {
      const auto value = static_cast<double>(values[i * (values.size() - 1) / 7]);
      CHECK(std::abs(value - digest["samples"][i].get<double>()) < 2e-4);
    }
  }
}

}  // namespace

TEST_CASE("adapters that start as a part of their weights follow peft, and merge into what it merges") {
  for (const StartCase& c : start_cases()) {
    CAPTURE(c.name);
    const json golden = read_json(kModel / fmt::format("golden_{}.json", c.name));
    const std::vector<FlatBatch> check = {FlatBatch(tiny_batches()["check"])};
    TinyTraining first(kModel, setup_of(c));
    CHECK(first.accumulate(check, 0, 0) == doctest::Approx(golden["check"]["loss"].get<double>()).epsilon(1e-5));
    CHECK(first.update() == doctest::Approx(golden["check"]["grad_norm"].get<double>()).epsilon(1e-4));
    TinyTraining training(kModel, setup_of(c));
    const json& curve = golden["curve"];
    for (size_t step = 0; step < tiny_batches()["train"].size(); ++step) {
      CAPTURE(step);
      std::vector<FlatBatch> micro_batches;
      for (const json& batch : tiny_batches()["train"][step]) micro_batches.emplace_back(batch);
      CHECK(training.accumulate(micro_batches, curve["learning_rate"][step], static_cast<int64_t>(step)) ==
            doctest::Approx(curve["loss"][step].get<double>()).epsilon(1e-3));
      CHECK(training.update() == doctest::Approx(curve["grad_norm"][step].get<double>()).epsilon(1e-2));
    }
    const TemporaryFolder folder;
    save(training, folder.path() / "adapter");
    merge_adapter(kModel, folder.path() / "adapter", folder.path() / "merged",
                  c.storage ? MergeBase::kQuantised : MergeBase::kFiles);
    check_merged(folder.path() / "merged", golden["merged"]);
  }
}

TEST_CASE(
    "what is saved of them is a plain adapter of the base as it is, of twice the rank, that goes on where they are") {
  for (const StartCase& c : start_cases()) {
    CAPTURE(c.name);
    TinyTraining training(kModel, setup_of(c));
    std::vector<FlatBatch> micro_batches = {FlatBatch(tiny_batches()["train"][0][0])};
    training.accumulate(micro_batches, 0.01, 0);
    training.update();
    const TemporaryFolder folder;
    save(training, folder.path());
    const json config = read_json(folder.path() / "adapter_config.json");
    const bool is_doubled = c.start != LoraStart::kLoftq;
    CHECK(config["init_lora_weights"] == true);
    CHECK(config["r"] == (is_doubled ? 8 : 4));
    CHECK(config["lora_alpha"] == (is_doubled ? 16 : 8));
    train::Job plain = tiny_job(kModel, {.linear_storage = c.storage});
    plain.graph.model.train_base = false;
    plain.graph.model.lora = read_adapter_options(folder.path());
    plain.config.adapter.emplace().model_dir = folder.path().string();
    TinyTraining loaded(std::move(plain), 2);
    const std::vector<FlatBatch> check = {FlatBatch(tiny_batches()["check"])};
    CHECK(loaded.accumulate(check, 0, 0) == doctest::Approx(training.accumulate(check, 0, 1)).epsilon(1e-5));
  }
}

TEST_CASE("weights without what their adapter starts as live where plans want them, and no plan changes a bit") {
  for (const StartCase& c : start_cases()) {
    CAPTURE(c.name);
    TinySetup setup = setup_of(c, DType::kBF16);
    setup.threads = 1;
    const ModeJobs jobs(setup, "llama2");
    const TinyOutcome plain = jobs.outcome(kPlainJob);
    for (const char* mode : {"layer_offloading: disk\n", "layer_offloading: host\n", "gradient_checkpointing: true\n"})
      CHECK(jobs.outcome(mode) == plain);
    std::optional<train::JobTiers> tiers;
    const TinyTraining training = jobs.training("layer_offloading: disk\n", tiers);
    const Parameter* p = training.training().model.parameters.find("model.layers.0.mlp.up_proj.weight");
    for (const Operand& home : training.plan().program.homes)
      if (home.value == p->values[0]) CHECK(home.place.tier == Tier::kDisk);  // not the user's files
  }
}

TEST_CASE("a start of a rank that a weight does not have, or of a quantised base, is refused") {
  LoraOptions lora{.r = 33, .alpha = 8, .target_modules = {"q_proj"}, .start = LoraStart::kOlora};
  const auto parameters = [&](const std::optional<LinearStorage>& storage) {
    return parameters_of(*read_model(kModel), {.lora = lora, .linear_storage = storage});
  };
  CHECK_THROWS_WITH_AS(train::check_adapter_start(parameters({}), lora),
                       "[lora_r] expected at most 32, the rank of model.layers.0.self_attn.q_proj, got 33; choose a "
                       "smaller one",
                       InputError);
  lora.r = 32;
  CHECK_NOTHROW(train::check_adapter_start(parameters({}), lora));
  lora.start = LoraStart::kPissa;
  const LinearStorage nf4{quantised_storage({WeightCoding::kNf4, 64, false, DType::kF32})};
  CHECK_THROWS_WITH_AS(train::check_adapter_start(parameters(nf4), lora),
                       doctest::Contains("expected a base that is not quantised beside pissa"), InputError);
  lora.start = LoraStart::kLoftq;
  CHECK_NOTHROW(train::check_adapter_start(parameters(nf4), lora));
}
