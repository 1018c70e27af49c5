// Models that are FP8 in files, in blocks or with a scale for each tensor: against transformers and peft, which compute
// with what the codes stand for, and against the dense model of these weights, bit for bit.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

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

constexpr const char* kFp8Models[] = {"qwen3_fp8", "qwen3_moe_fp8", "ministral3_fp8"};
const std::string kFp8Query = "model.layers.1.self_attn.q_proj.weight";

TinySetup fp8_setup(DType dtype, const char* adapter = "adapter") {
  return {.adapter = adapter, .dtype = dtype, .accumulates = false, .threads = 1};
}

std::string read_whole(const fs::path& path) { return read_file(path, 1 << 24); }

}  // namespace

TEST_CASE("codes of FP8 stand for the numbers of bf16 that transformers makes of them") {
  for (const char* name : kFp8Models) {
    CAPTURE(name);
    const fs::path model = kGoldenModels / name;
    const ParameterTable parameters = parameters_of(*read_model(model), {.dtype = DType::kBF16});
    const SafetensorsFolder files = open_model_weights(model, parameters);
    const SafetensorsFolder golden(model, "golden_dequantised");
    size_t coded = 0;
    for (const Parameter& p : parameters) {
      if (!p.is_of_model() || !p.source.storage->is_coded()) continue;
      CAPTURE(p.name);
      std::vector<bf16> own(static_cast<size_t>(p.shape.elems()));
      std::vector<float> expected(own.size());
      StoredWeight(files, p).read({own.data(), DType::kBF16, p.shape}, 0);
      golden.read(p.source.name, DType::kF32, expected.data());
      bool is_equal = true;
      for (size_t i = 0; i < own.size(); ++i) is_equal &= to_float(own[i]) == expected[i];
      CHECK(is_equal);
      ++coded;
    }
    CHECK(coded == golden.tensors().size());
  }
}

TEST_CASE("models in FP8 train as transformers and peft train what their codes stand for") {
  for (const char* name : kFp8Models) {
    CAPTURE(name);
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(adapter);
      check_gradients(name, {.adapter = adapter});
      check_curve(name, {.adapter = adapter});
    }
  }
  check_gradients("qwen3_moe_fp8", {.adapter = "adapter_experts"});
  check_curve("qwen3_moe_fp8", {.adapter = "adapter_experts"});
}

TEST_CASE("weights in FP8 have the bits of the dense ones that they stand for, wherever the codes live") {
  for (const char* name : kFp8Models) {
    CAPTURE(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(name_of(dtype));
      const TemporaryFolder folder;
      const std::string model = (kGoldenModels / name).string();
      const std::string decoded = write_decoded(folder, model, nullptr, dtype).string();
      const auto expected = ModeJobs(fp8_setup(dtype), decoded).outcome(kPlainJob);
      const ModeJobs coded(fp8_setup(dtype), model);
      for (const char* lines : {kPlainJob, "layer_offloading: disk\n", "layer_offloading: true\n"}) {
        CAPTURE(lines);
        CHECK(coded.outcome(lines) == expected);
      }
      TinySetup dequantised = fp8_setup(dtype);
      dequantised.linear_storage.emplace();
      CHECK(ModeJobs(dequantised, model).outcome(kPlainJob) == expected);
    }
  }
}

TEST_CASE("codes of FP8 are read from the model's own files, and no mode changes a bit") {
  const ModeJobs jobs(fp8_setup(DType::kBF16, "adapter_experts"), (kGoldenModels / "qwen3_moe_fp8").string());
  check_modes(jobs);
  const ModeJobs dense(fp8_setup(DType::kBF16), (kGoldenModels / "qwen3_fp8").string());
  std::optional<train::JobTiers> tiers;
  const TinyTraining training = dense.training("layer_offloading: disk\n", tiers);
  CHECK(types_in_files(training, kFp8Query) == std::vector<ValueType>{{DType::kU8, {64, 32}}, {DType::kF32, {8, 2}}});
}

TEST_CASE("files in FP8 that do not fit their config are refused by the tensor's name") {
  const TemporaryFolder folder;
  const fs::path model = kGoldenModels / "qwen3_fp8";
  CHECK(error_of_codes(model).empty());
  const auto error_after = [&](const auto& change) { return error_of_codes(changed_copy(folder, model, change)); };
  const std::string query = kFp8Query, scale = query + "_scale_inv";
  const auto rename = [](auto& specs, auto& contents, const std::string& from, const std::string& to) {
    for (TensorSpec& spec : specs)
      if (spec.name == from) spec.name = to;
    contents[to] = contents[from];
  };
  CHECK(error_after([&](auto& specs, auto&) {
          std::erase_if(specs, [&](const TensorSpec& spec) { return spec.name == scale; });
        }).find("expected a tensor '" + scale + "' beside '" + query + "', got none") != std::string::npos);
  CHECK(error_after([&](auto& specs, auto&) {
          for (TensorSpec& spec : specs)
            if (spec.name == scale) spec.shape = {2, 8};
        }).find("expected scales of shape [8, 2] for a weight of [64, 32] in blocks of 8 x 16, got [2, 8]") !=
        std::string::npos);
  CHECK(error_after([&](auto& specs, auto&) {
          for (TensorSpec& spec : specs)
            if (spec.name == query) spec.shape = {32, 64};
        }).find(query + "' of shape [64, 32], got [32, 64]") != std::string::npos);
  CHECK(error_after([&](auto& specs, auto& contents) {
          rename(specs, contents, scale, "model.layers.1.self_attn.q_proj.more_scales");
          rename(specs, contents, query, "model.layers.1.self_attn.more.weight");
        }) != "");
  CHECK(error_after([&](auto& specs, auto&) {
          for (TensorSpec& spec : specs)
            if (spec.name == query) spec.foreign_dtype = "F8_E5M2";
        }).find("expected '" + query + "' in F32, F16 or BF16, got 'F8_E5M2'") != std::string::npos);
  CHECK(error_after([&](auto&, auto& contents) { contents[query][70] = std::byte{0xFF}; }) ==
        "['" + query + "'] expected codes that are numbers, got NaN at element 70; download the file again");
  // Nothing says how to read them.
  const fs::path unsaid = changed_copy(folder, model, [](auto&, auto&) {});
  edit_config(unsaid, "quantization_config", nullptr);
  CHECK(error_of_codes(unsaid).find("got F8_E4M3; restore config.json's quantization_config") != std::string::npos);
}

TEST_CASE("a model in FP8 is planned, trained, evaluated, asked and exported by its folder, and written in bf16") {
  const CodedJob coded(kGoldenModels / "ministral3_fp8");
  const Finished trained = coded.check_training("FineGrainedFP8Config");
  CHECK((trained.out + trained.err).find("ignored: scales of inputs in the model's files") != std::string::npos);
  for (const char* name : {"full", "merged"}) {
    CAPTURE(name);
    const SafetensorsFolder written(coded.output(name));
    const StoredTensor* tensor = written.find(kFp8Query);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->dtype() == DType::kBF16);
    CHECK(written.find(kFp8Query + "_scale_inv") == nullptr);
    CHECK(written.find("model.layers.1.self_attn.q_proj.activation_scale") == nullptr);
  }
  coded.check_uses();
  const json table = json::parse(succeed({"plan", "--model", coded.base(), "--gpu", "rtx3060-12gb", "--json"}));
  std::set<std::string> methods;
  for (const json& row : table["rows"]) methods.insert(row["method"].get<std::string>());
  CHECK(methods == std::set<std::string>{"full", "lora"});
}

TEST_CASE("a GGUF file of a model in FP8 is that of the numbers that its codes stand for") {
  const TemporaryFolder folder;
  const fs::path coded = folder.path() / "coded" / "model";
  fs::create_directories(coded.parent_path());
  fs::copy(source_folder() / "tests/golden/export/qwen3", coded);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(kGoldenModels / "qwen3_fp8" / file, coded / file, fs::copy_options::overwrite_existing);
  // As many tokens as the tokenizer has.
  const int64_t rows = read_json(source_folder() / "tests/golden/export/qwen3/config.json")["vocab_size"];
  const fs::path grown = changed_copy(folder, coded, [&](auto& specs, auto& contents) {
    for (TensorSpec& spec : specs) {
      if (spec.shape != std::vector<int64_t>{96, 32}) continue;
      spec.shape[0] = rows;
      contents[spec.name].resize(static_cast<size_t>(rows * 32 * 2));
    }
  });
  edit_config(grown, "vocab_size", rows);
  const fs::path decoded = write_decoded(folder, grown, nullptr, DType::kF32);
  for (const char* type : {"f32", "q8_0"}) {
    CAPTURE(type);
    std::vector<std::string> written;
    for (const fs::path& model : {grown, decoded}) {
      const fs::path file = folder.path() / (std::to_string(written.size()) + type);
      const Finished done = run_spillway({"export", model.string(), "--gguf", file.string(), "--type", type});
      INFO(done.err);
      REQUIRE(done.status == 0);
      written.push_back(read_whole(file));
    }
    CHECK(written[0] == written[1]);
  }
}

TEST_CASE("keys that say of FP8 what is not so of the model are refused or named") {
  const TinyJob job;
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--max_steps", "1"});
    return run_spillway(job.train("out", more));
  };
  const Finished dense = run({"--model_quantization_config", "FineGrainedFP8Config"});
  CHECK(dense.status == 2);
  CHECK(dense.err.find("[model_quantization_config] expected a model whose files hold weights in fp8, got dense "
                       "weights; remove the key") != std::string::npos);
  for (const char* key : {"load_in_8bit", "load_in_4bit"}) {
    const Finished both =
        run({"--base_model", (kGoldenModels / "qwen3_fp8").string(), std::string("--") + key, "true"});
    CHECK(both.status == 2);
    CHECK(both.err.find(std::string("[") + key +
                        "] expected the format that the model's files have, fp8, got another") != std::string::npos);
  }
  // PEFT's start would have to encode what it leaves of the base.
  for (const char* start : {"olora", "pissa"}) {
    const Finished made =
        run({"--base_model", (kGoldenModels / "qwen3_fp8").string(), "--peft_init_lora_weights", start});
    CHECK(made.status == 2);
    CHECK(made.err.find("beside weights in fp8, got one that is made of them; set dequantize: true") !=
          std::string::npos);
  }
}
