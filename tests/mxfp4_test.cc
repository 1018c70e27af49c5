// Mixtures whose experts are mxfp4 in files, as gpt-oss's are on the hub: against transformers and peft, which compute
// with what the codes stand for, and against the dense model of these weights, bit for bit.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/safetensors.h"
#include "model/merge.h"
#include "tests/support/changed_model.h"
#include "tests/support/coded_job.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/model_parity.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kName = "gpt_oss_mxfp4";
const fs::path kCodedModel = kGoldenModels / kName;
const std::string kGateUp = "model.layers.1.mlp.experts.gate_up_proj";

TinySetup experts_setup(DType dtype) {
  return {.adapter = "adapter_experts", .dtype = dtype, .accumulates = false, .threads = 1};
}

}  // namespace

TEST_CASE("experts in mxfp4 train as transformers and peft train what they stand for") {
  for (const char* adapter : {"", "adapter", "adapter_experts"}) {
    CAPTURE(adapter);
    check_gradients(kName, {.adapter = adapter});
    check_curve(kName, {.adapter = adapter});
  }
}

TEST_CASE("experts in mxfp4 have the bits of the bf16 weights that they stand for, wherever the codes live") {
  const TemporaryFolder folder;
  const std::string decoded = write_decoded(folder, kCodedModel).string();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    const auto expected = ModeJobs(experts_setup(dtype), decoded).outcome(kPlainJob);
    const ModeJobs coded(experts_setup(dtype), kCodedModel.string());
    for (const char* lines : {kPlainJob, "expert_offload: disk\n", "expert_offload: host\n"}) {
      CAPTURE(lines);
      CHECK(coded.outcome(lines) == expected);
    }
    TinySetup dequantised = experts_setup(dtype);
    dequantised.linear_storage.emplace();
    CHECK(ModeJobs(dequantised, kCodedModel.string()).outcome("expert_offload: disk\n") == expected);
  }
}

TEST_CASE("fused experts that are quantised as they are loaded train as what their codes stand for") {
  const TemporaryFolder folder;
  const TinySetup plain{.adapter = "adapter", .dtype = DType::kBF16, .accumulates = false, .threads = 1};
  for (const StoragePtr& storage : quantised_storages(DType::kBF16)) {
    CAPTURE(storage->name());
    const std::string decoded = write_decoded(folder, kGoldenModels / "gpt_oss", storage).string();
    TinySetup encoded = plain;
    encoded.linear_storage = {.storage = storage, .has_experts = true};
    CHECK(ModeJobs(encoded, "gpt_oss").outcome("expert_offload: disk\n") ==
          ModeJobs(plain, decoded).outcome(kPlainJob));
  }
}

TEST_CASE("codes of mxfp4 are read from the model's own files, and no mode changes a bit") {
  const ModeJobs jobs(experts_setup(DType::kBF16), kCodedModel.string());
  check_modes(jobs);
  std::optional<train::JobTiers> tiers;
  const TinyTraining training = jobs.training("expert_offload: disk\n", tiers);
  CHECK(types_in_files(training, "model.layers.1.mlp.experts.3.down_proj.weight") ==
        std::vector<ValueType>{{DType::kU8, {64 * 32 / 2}}, {DType::kU8, {64 * 32 / 32}}});
}

TEST_CASE("factors of experts in mxfp4 are merged as peft merges them, and written in bf16") {
  const TemporaryFolder folder;
  merge_adapter(kCodedModel, kCodedModel / "adapter_experts", folder.path() / "merged");
  const SafetensorsFolder merged(folder.path() / "merged");
  const json golden = read_json(kCodedModel / "golden_experts.json")["merged"];
  int64_t experts = 0;
  for (const auto& [name, digest] : golden.items()) {
    CAPTURE(name);
    // The golden names are of one expert each: "....experts.3.down_proj.weight".
    const size_t number = name.find(".experts.") + 9, kind = name.find('.', number);
    if (number < 9 || !name.ends_with("_proj.weight")) continue;
    const std::string tensor = name.substr(0, number) + name.substr(kind + 1, name.rfind('.') - kind - 1);
    REQUIRE(merged.find(tensor) != nullptr);
    CHECK(merged.find(tensor)->dtype() == DType::kBF16);
    const int64_t elems = merged.find(tensor)->elems() / 4;
    std::vector<float> values(static_cast<size_t>(elems));
    merged.read(tensor, std::stoll(name.substr(number)) * elems, elems, DType::kF32, values.data());
    for (size_t i = 0; i < 8; ++i) {
      const double expected = digest["samples"][i], value = values[i * (values.size() - 1) / 7];
      CHECK(std::abs(value - expected) <= std::abs(expected) / 256 + 1e-6);
    }
    ++experts;
  }
  CHECK(experts == 2 * 2 * 4);
}

TEST_CASE("files in mxfp4 that do not fit their config are refused by the tensor's name") {
  const TemporaryFolder folder;
  CHECK(error_of_codes(kCodedModel).empty());
  const auto drop = [](auto& specs, const std::string& name) {
    std::erase_if(specs, [&](const TensorSpec& spec) { return spec.name == name; });
  };
  CHECK(error_of_codes(changed_copy(folder, kCodedModel, [&](auto& specs, auto&) {
          drop(specs, kGateUp + "_scales");
        })).find("expected a tensor '" + kGateUp + "_scales', got none of that name") != std::string::npos);
  const fs::path other_blocks = changed_copy(folder, kCodedModel, [&](auto& specs, auto&) {
    for (TensorSpec& spec : specs)
      if (spec.name == kGateUp + "_blocks") spec.shape = {4, 128, 2, 8};
  });
  CHECK(error_of_codes(other_blocks)
            .find("expected '" + kGateUp + "_blocks' of shape [4, 128, 1, 16], got [4, 128, 2, 8]") !=
        std::string::npos);
  for (const uint8_t scale : {uint8_t{253}, uint8_t{255}}) {
    const fs::path bad = changed_copy(folder, kCodedModel, [&](auto&, auto& contents) {
      contents[kGateUp + "_scales"][70] = static_cast<std::byte>(scale);
    });
    CHECK(error_of_codes(bad) ==
          fmt::format("['{}_scales'] expected scales of at most 252, got {}, which stands for {}; download the file "
                      "again",
                      kGateUp, scale, scale == 255 ? "no number" : "numbers beyond bf16"));
  }
  const fs::path no_codes = changed_copy(folder, kCodedModel, [&](auto& specs, auto&) {
    std::erase_if(specs, [](const TensorSpec& spec) { return spec.name.ends_with("_blocks"); });
  });
  CHECK(error_of_codes(no_codes).find(
            "expected experts in mxfp4, as config.json's quantization_config says, got none") != std::string::npos);
  const fs::path odd = changed_copy(folder, kCodedModel, [](auto&, auto&) {});
  edit_config(odd, "intermediate_size", 40);
  CHECK(error_of_codes(odd).find("expected rows of a multiple of 32 for mxfp4, got 40") != std::string::npos);
}

TEST_CASE("a model in mxfp4 is planned, trained, evaluated and asked by its folder, and written in bf16") {
  const CodedJob coded(kCodedModel);
  (void)coded.check_training("Mxfp4Config");
  for (const char* name : {"full", "merged"}) {
    CAPTURE(name);
    const SafetensorsFolder written(coded.output(name));
    const StoredTensor* tensor = written.find(kGateUp);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->dtype() == DType::kBF16);
    CHECK(tensor->shape == std::vector<int64_t>{4, 32, 128});
    CHECK(written.find(kGateUp + "_blocks") == nullptr);
  }
  coded.check_uses();
  succeed({"train", (source_folder() / "examples/gpt_oss_lora.yml").string(), "--base_model", coded.base(),
           "--datasets.0.path", (source_folder() / "examples/data/instructions.jsonl").string(), "--sequence_len",
           "256", "--max_steps", "1", "--output_dir", coded.output("example")});
  CHECK(fs::exists(coded.job().output("example") / "adapter_model.safetensors"));
}

TEST_CASE("keys that say of mxfp4 what is not so of the model are refused or named") {
  const TinyJob job;
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--max_steps", "1"});
    return run_spillway(job.train("out", more));
  };
  const Finished dense = run({"--model_quantization_config", "Mxfp4Config"});
  CHECK(dense.status == 2);
  CHECK(dense.err.find("[model_quantization_config] expected a model whose files hold weights in mxfp4, got dense "
                       "weights; remove the key") != std::string::npos);
  const Finished both = run({"--base_model", kCodedModel.string(), "--load_in_8bit", "true"});
  CHECK(both.status == 2);
  CHECK(both.err.find("[load_in_8bit] expected the format that the model's files have, mxfp4, got another") !=
        std::string::npos);
}
