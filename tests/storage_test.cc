// Weights that are kept as codes and scales: loaded, placed, trained under with LoRA, saved and merged as dense ones
// are.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/decoder/decoder.h"
#include "model/merge.h"
#include "model/weights.h"
#include "tests/support/int8_storage.h"
#include "tests/support/mode_jobs.h"
#include "train/state.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// A golden model whose linear layers are codes, and the dense one that these stand for.
class CodedModel {
 public:
  explicit CodedModel(const std::string& name = "qwen3") { write_int8_model(kGoldenModels / name, coded(), decoded()); }

  [[nodiscard]] std::filesystem::path coded() const { return folder_.path() / "coded"; }
  [[nodiscard]] std::filesystem::path decoded() const { return folder_.path() / "decoded"; }
  [[nodiscard]] std::filesystem::path beside(const char* name) const { return folder_.path() / name; }
  [[nodiscard]] ModelPtr model() const {
    DecoderConfig config = read_decoder_config(coded());
    config.linear_storage = &kInt8Rows;
    return make_decoder(config);
  }

 private:
  TemporaryFolder folder_;
};

TinySetup lora_setup(DType dtype, const StorageDef& storage) {
  return {.adapter = "adapter",
          .dtype = dtype,
          .dropout = 0.1,
          .accumulates = false,
          .threads = 1,
          .linear_storage = &storage};
}

std::string contents(const std::filesystem::path& path) { return read_file(path, 1 << 24); }

}  // namespace

TEST_CASE("a model whose layers are codes trains as the one that these stand for, bit for bit") {
  for (const std::string name : {"llama_bias", "qwen3"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(name);
      CAPTURE(name_of(dtype));
      const CodedModel model(name);
      const ModeJobs coded(lora_setup(dtype, kInt8Rows), model.coded().string());
      const ModeJobs decoded(lora_setup(dtype, kDense), model.decoded().string());
      CHECK(coded.outcome(kPlainJob) == decoded.outcome(kPlainJob));
    }
  }
}

TEST_CASE("codes and scales live where plans want them, and no plan changes a bit") {
  const CodedModel model;
  const ModeJobs jobs(lora_setup(DType::kBF16, kInt8Rows), model.coded().string());
  check_modes(jobs);
  // Streamed layers read them from the user's files.
  std::optional<train::JobTiers> tiers;
  const TinyTraining training = jobs.training("layer_offloading: disk\n", tiers);
  const ParameterTable& parameters = training.training().model.parameters;
  const Parameter* p = parameters.find("model.layers.1.mlp.up_proj.weight");
  REQUIRE(p->values.size() == 2);
  for (const ValueId id : p->values) {
    const auto& homes = training.plan().program.homes;
    const auto home = std::find_if(homes.begin(), homes.end(), [&](const Operand& o) { return o.value == id; });
    REQUIRE(home != homes.end());
    CHECK(home->place.tier == Tier::kFiles);
  }
}

TEST_CASE("an adapter beside codes is saved as beside any base, and merges with what they stand for") {
  const CodedModel model;
  for (const StorageDef* storage : {&kInt8Rows, &kDense}) {
    const bool coded = storage == &kInt8Rows;
    TinyTraining training(coded ? model.coded() : model.decoded(), lora_setup(DType::kF32, *storage));
    TinyOutcome outcome;
    train_steps(training, 0, 2, 1, outcome);
    const std::filesystem::path adapter = model.beside(coded ? "coded_adapter" : "decoded_adapter");
    std::filesystem::create_directory(adapter);
    train::save_model(adapter, training.job(), training.training(), training.session().store());
  }
  const char* const file = "adapter_model.safetensors";
  CHECK(contents(model.beside("coded_adapter") / file) == contents(model.beside("decoded_adapter") / file));
  merge_adapter(model.model(), model.coded(), model.beside("coded_adapter"), model.beside("merged"));
  merge_adapter(model.decoded(), model.beside("decoded_adapter"), model.beside("expected"));
  CHECK(contents(model.beside("merged") / "model.safetensors") ==
        contents(model.beside("expected") / "model.safetensors"));
}

TEST_CASE("files of coded weights are checked part by part") {
  const CodedModel model;
  const auto open = [](const std::filesystem::path& folder, const ModelPtr& read) {
    (void)open_model_weights(folder, parameters_of(*read));
  };
  CHECK_NOTHROW(open(model.coded(), model.model()));
  CHECK_THROWS_WITH_AS(open(model.decoded(), model.model()),
                       doctest::Contains("q_proj.weight' as i8, got 'F32'; use the weights"), InputError);
  CHECK_THROWS_WITH_AS(open(model.coded(), read_model(model.coded())),
                       doctest::Contains("q_proj.weight' in F32, F16 or BF16, got 'I8'"), InputError);
}

TEST_CASE("a weight that is trained is dense, whatever the storage of the others") {
  const CodedModel model;
  for (const Parameter& p : parameters_of(*model.model(), {.train_base = true})) CHECK(p.storage == &kDense);
  for (const Parameter& p : parameters_of(*model.model()))
    CHECK((p.storage == &kInt8Rows) == (p.role == ParameterRole::kLinear));
}
