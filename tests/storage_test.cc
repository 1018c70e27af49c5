// Weights that are kept as codes and scales: loaded, placed, trained under with LoRA, saved and merged as dense ones
// are.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/merge.h"
#include "model/weights.h"
#include "saved/saved_model.h"
#include "saved/state.h"
#include "tests/support/coded_model.h"
#include "tests/support/mode_jobs.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

TinySetup lora_setup(DType dtype, const char* adapter = "adapter") {
  return {.adapter = adapter, .dtype = dtype, .dropout = 0.1, .accumulates = false, .threads = 1};
}

// With the codes that the model's files hold.
TinySetup coded_setup(DType dtype, const StoragePtr& storage) {
  TinySetup setup = lora_setup(dtype);
  setup.in_files.storage = storage;
  return setup;
}

// With codes that are made as the weights are loaded.
TinySetup encoding_setup(DType dtype, const StoragePtr& storage) {
  TinySetup setup = lora_setup(dtype);
  setup.linear_storage = {.storage = storage};
  return setup;
}

std::string contents(const std::filesystem::path& path) { return read_file(path, 1 << 24); }

}  // namespace

TEST_CASE("a model whose layers are codes trains as the one that these stand for, bit for bit") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const StoragePtr& storage : quantised_storages(dtype)) {
      const std::string name = dtype == DType::kF32 ? "llama_bias" : "qwen3";
      CAPTURE(name);
      CAPTURE(storage->name());
      const CodedModel model(kGoldenModels / name, storage);
      const ModeJobs coded(coded_setup(dtype, storage), model.coded().string());
      const ModeJobs encoded(encoding_setup(dtype, storage), model.original().string());
      const ModeJobs decoded(lora_setup(dtype), model.decoded().string());
      const auto expected = decoded.outcome(kPlainJob);
      CHECK(coded.outcome(kPlainJob) == expected);
      CHECK(encoded.outcome(kPlainJob) == expected);
    }
  }
}

TEST_CASE("a mixture whose experts are codes trains as the one that these stand for, wherever the codes live") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const StoragePtr& storage : quantised_storages(dtype)) {
      CAPTURE(name_of(dtype));
      CAPTURE(storage->name());
      const CodedModel model(kGoldenModels / "qwen3_moe", storage, true);
      TinySetup setup = lora_setup(dtype);
      setup.linear_storage = {.storage = storage, .has_experts = true};
      const ModeJobs encoded(setup, model.original().string());
      const auto expected = ModeJobs(lora_setup(dtype), model.decoded().string()).outcome(kPlainJob);
      CHECK(encoded.outcome(kPlainJob) == expected);
      CHECK(encoded.outcome("expert_offload: disk\n") == expected);
    }
  }
}

TEST_CASE("beside codes DoRA trains as beside what they stand for, bit for bit, and so it merges") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const StoragePtr& storage : quantised_storages(dtype)) {
      CAPTURE(storage->name());
      const CodedModel model(kGoldenModels / "llama_bias", storage);
      TinySetup coded = lora_setup(dtype, "adapter_dora"), encoded = coded;
      coded.in_files.storage = encoded.linear_storage.emplace().storage = storage;
      const auto expected = ModeJobs(lora_setup(dtype, "adapter_dora"), model.decoded().string()).outcome(kPlainJob);
      CHECK(ModeJobs(coded, model.coded().string()).outcome(kPlainJob) == expected);
      CHECK(ModeJobs(encoded, model.original().string()).outcome("layer_offloading: disk\n") == expected);
      if (dtype == DType::kBF16) continue;
      const std::filesystem::path adapter = kGoldenModels / "llama_bias/adapter_dora";
      merge_adapter(model.model(), model.coded(), adapter, model.beside("merged"));
      merge_adapter(model.decoded(), adapter, model.beside("expected"));
      CHECK(contents(model.beside("merged") / "model.safetensors") ==
            contents(model.beside("expected") / "model.safetensors"));
    }
  }
}

TEST_CASE("codes and scales live where plans want them, and no plan changes a bit") {
  const StoragePtr storage = quantised_storages(DType::kBF16)[0];
  const CodedModel model(kGoldenModels / "qwen3", storage);
  const ModeJobs jobs(coded_setup(DType::kBF16, storage), model.coded().string());
  check_modes(jobs);
  // Streamed layers read them from the user's files; what is made from dense weights is in the scratch.
  const ModeJobs encoding(encoding_setup(DType::kBF16, storage), model.original().string());
  CHECK(encoding.outcome("layer_offloading: disk\n") == jobs.outcome(kPlainJob));
  for (const ModeJobs* of : {&jobs, &encoding}) {
    std::optional<train::JobTiers> tiers;
    const TinyTraining training = of->training("layer_offloading: disk\n", tiers);
    const Parameter* p = training.training().model.parameters.find("model.layers.1.mlp.up_proj.weight");
    REQUIRE(p->values.size() == storage->parts(p->spec()).size());
    for (const ValueId id : p->values) {
      const auto& homes = training.plan().program.homes;
      const auto home = std::find_if(homes.begin(), homes.end(), [&](const Operand& o) { return o.value == id; });
      REQUIRE(home != homes.end());
      CHECK(home->place.tier == (of == &jobs ? Tier::kFiles : Tier::kDisk));
    }
  }
}

TEST_CASE("an adapter beside codes is saved as beside any base, and merges with what they stand for") {
  const StoragePtr storage = quantised_storages(DType::kF32)[0];
  const CodedModel model(kGoldenModels / "qwen3", storage);
  for (const bool coded : {true, false}) {
    TinyTraining training(coded ? model.coded() : model.decoded(),
                          coded ? coded_setup(DType::kF32, storage) : lora_setup(DType::kF32));
    TinyOutcome outcome;
    train_steps(training, 0, 2, 1, outcome);
    const std::filesystem::path adapter = model.beside(coded ? "coded_adapter" : "decoded_adapter");
    std::filesystem::create_directory(adapter);
    train::save_model(adapter, {training.job(), train::read_base_files(training.job()), training.training(),
                                training.session().store()});
  }
  const char* const file = "adapter_model.safetensors";
  CHECK(contents(model.beside("coded_adapter") / file) == contents(model.beside("decoded_adapter") / file));
  merge_adapter(model.model(), model.coded(), model.beside("coded_adapter"), model.beside("merged"));
  merge_adapter(model.decoded(), model.beside("decoded_adapter"), model.beside("expected"));
  CHECK(contents(model.beside("merged") / "model.safetensors") ==
        contents(model.beside("expected") / "model.safetensors"));
}

TEST_CASE("files of coded weights are checked part by part") {
  const CodedModel model(kGoldenModels / "qwen3", quantised_storages(DType::kF32)[2]);
  const auto open = [](const std::filesystem::path& folder, const ModelPtr& read) {
    (void)open_model_weights(folder, parameters_of(*read));
  };
  CHECK_NOTHROW(open(model.coded(), model.model()));
  CHECK_THROWS_WITH_AS(open(model.decoded(), model.model()),
                       doctest::Contains("q_proj.weight' as i8, got 'F32'; use the weights"), InputError);
  CHECK_THROWS_WITH_AS(open(model.coded(), read_model(model.coded())),
                       doctest::Contains("q_proj.weight' in F32, F16 or BF16, got 'I8'"), InputError);
}

TEST_CASE("a weight that is trained, or is none of a linear layer, is dense, whatever the storage of the others") {
  const CodedModel model(kGoldenModels / "qwen3", quantised_storages(DType::kF32)[0]);
  for (const Parameter& p : parameters_of(*model.model(), {.train_base = true})) CHECK(!p.storage->is_coded());
  for (const Parameter& p : parameters_of(*model.model()))
    CHECK(p.storage->is_coded() == (p.role == ParameterRole::kLinear));
  const LinearStorage some{model.storage(), {"model.layers.0.mlp.up_proj"}};
  for (const Parameter& p : parameters_of(*read_model(model.original()), {.linear_storage = some}))
    CHECK(p.storage->is_coded() == (p.role == ParameterRole::kLinear && p.module != "model.layers.0.mlp.up_proj"));
}
