#include "model/merge.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/merged_weights.h"
#include "model/model.h"
#include "model/parameters.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using spillway::testing::kGoldenModels;

TEST_CASE("the elements of a merged tensor are the same in pieces, whatever an adapter changes") {
  ThreadPool pool(2);
  for (const auto& [name, variant] : {std::pair{"llama2", ""}, {"llama2", "saved"}, {"llama2", "dora"}}) {
    CAPTURE(variant);
    const std::filesystem::path folder = kGoldenModels / name;
    std::optional<std::filesystem::path> adapter;
    if (*variant != '\0') adapter = folder / fmt::format("adapter_{}", variant);
    const MergedWeights merged(read_model(folder), folder, adapter, MergeBase::kFiles);
    int in_pieces = 0, changed = 0;
    for (const TensorSpec& tensor : merged.tensors()) {
      CAPTURE(tensor.name);
      std::vector<float> all, piece;
      int pieces = 0;
      for (MergedElements elements = merged.elements(tensor, pool, 48); elements.next(piece); ++pieces)
        all.insert(all.end(), piece.begin(), piece.end());
      CHECK(all == merged.read(tensor, pool));
      if (tensor.elems() > 48) ++(pieces > 1 ? in_pieces : changed);
    }
    CHECK(in_pieces > 0);
    CHECK((changed > 0) == adapter.has_value());
  }
}

// Made by tools/make_model_goldens.py and make_adapter_goldens.py.
TEST_CASE("a merged folder equals what peft merges, modules that were trained in full and DoRA's magnitudes included") {
  for (const auto& [name, variant] :
       {std::pair{"llama2", "saved"}, {"qwen2_tied", "saved"}, {"llama2", "dora"}, {"llama_bias", "dora"}}) {
    CAPTURE(name);
    CAPTURE(variant);
    const TemporaryFolder folder;
    const std::filesystem::path out = folder.path() / "merged";
    int64_t told = 0, announced = 0;
    merge_adapter(kGoldenModels / name, kGoldenModels / name / fmt::format("adapter_{}", variant), out,
                  MergeBase::kFiles, [&](int64_t done, int64_t total) {
                    CHECK(done > told);
                    told = done;
                    announced = total;
                  });
    CHECK(told > 0);
    CHECK(told == announced);
    const std::filesystem::path file = kGoldenModels / name / fmt::format("golden_{}.json", variant);
    const auto expected = nlohmann::json::parse(read_file(file, 1 << 24))["merged"];
    const SafetensorsFolder merged(out);
    CHECK(merged.tensors().size() == expected.size());
    for (const auto& [tensor, digest] : expected.items()) {
      CAPTURE(tensor);
      REQUIRE(merged.find(tensor) != nullptr);
      std::vector<float> values(static_cast<size_t>(merged.find(tensor)->elems()));
      merged.read(tensor, DType::kF32, values.data());
      double square = 0;
      for (const float value : values) square += static_cast<double>(value) * static_cast<double>(value);
      CHECK(std::sqrt(square) == doctest::Approx(digest["norm"].get<double>()).epsilon(1e-5));
      for (size_t i = 0; i < 8; ++i) {
        CHECK(std::abs(static_cast<double>(values[i * (values.size() - 1) / 7]) - digest["samples"][i].get<double>()) <
              1e-6);
      }
    }
    const ModelPtr model = read_model(out);
    CHECK(model->text()->vocab_size == merged.find("model.embed_tokens.weight")->shape[0]);
    CHECK_FALSE(model->text()->with_own_head());
  }
}

TEST_CASE("factors of experts and routers are merged as peft merges them") {
  for (const char* const name : {"qwen3_moe", "olmoe", "gemma4_moe", "granitemoe", "nemotron_h_moe"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    merge_adapter(kGoldenModels / name, kGoldenModels / name / "adapter_experts", folder.path() / "merged");
    const auto golden = nlohmann::json::parse(read_file(kGoldenModels / name / "golden_experts.json", 1 << 24));
    const SafetensorsFolder merged(folder.path() / "merged");
    for (const auto& [tensor, digest] : golden["merged"].items()) {
      CAPTURE(tensor);
      REQUIRE(merged.find(tensor) != nullptr);
      std::vector<float> values(static_cast<size_t>(merged.find(tensor)->elems()));
      merged.read(tensor, DType::kF32, values.data());
      const bool is_rounded = merged.find(tensor)->dtype() == DType::kBF16;  // as the base's files; half a last bit
      for (size_t i = 0; i < 8; ++i) {
        const auto expected = digest["samples"][i].get<double>();
        CHECK(std::abs(static_cast<double>(values[i * (values.size() - 1) / 7]) - expected) <
              1e-6 + (is_rounded ? std::abs(expected) / 256 : 0));
      }
    }
  }
}

TEST_CASE("factors of the tensor of a linear router, which have the names of its module's, are merged once") {
  const TemporaryFolder folder;
  const std::filesystem::path model = kGoldenModels / "gemma4_moe", adapter = folder.path() / "adapter";
  const ModelPtr read = read_model(model);
  LoraOptions lora{.r = 2, .alpha = 6};
  for (const Parameter& p : parameters_of(*read))
    if (p.role == ParameterRole::kLinear && !p.tensor.name.empty()) lora.target_parameters.insert(p.tensor.name);
  REQUIRE(!lora.target_parameters.empty());
  const ParameterTable parameters = parameters_of(*read, {.lora = lora});
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters)
    if (p.is_factor()) specs.push_back({p.name, DType::kF32, p.shape.dims()});
  std::filesystem::create_directory(adapter);
  write_file(adapter / "adapter_config.json", adapter_config_json(parameters, lora, "x"));
  SafetensorsWriter writer(adapter / "adapter_model.safetensors", specs);
  for (const TensorSpec& spec : specs)
    writer.append(spec.name, std::vector<float>(static_cast<size_t>(spec.elems()), 0.5F).data(), DType::kF32,
                  spec.elems());
  writer.commit();
  merge_adapter(model, adapter, folder.path() / "merged");
  const SafetensorsFolder base(model), merged(folder.path() / "merged");
  for (const Parameter& p : parameters) {
    if (!lora.target_parameters.contains(p.tensor.name)) continue;
    CAPTURE(p.name);
    std::vector<float> before(static_cast<size_t>(p.shape.elems())), after(before.size());
    base.read(p.written_name(), DType::kF32, before.data());
    merged.read(p.written_name(), DType::kF32, after.data());
    // alpha / r times the sum over the rank of 0.5 * 0.5, in f32 or in bf16.
    for (size_t i = 0; i < after.size(); ++i) CHECK(after[i] - before[i] == doctest::Approx(1.5).epsilon(0.01));
  }
}

TEST_CASE("a model whose files are in f16 is merged into f16: W + scale B A, rounded once") {
  const std::filesystem::path model = kGoldenModels / "qwen3_tied", adapter = model / "adapter";
  const TemporaryFolder folder;
  merge_adapter(model, adapter, folder.path() / "merged");
  const SafetensorsFolder base(model), merged(folder.path() / "merged");
  const SafetensorsFile factors(adapter / "adapter_model.safetensors");
  const auto values_of = [](const auto& file, const auto& tensor, int64_t elems) {
    std::vector<float> values(static_cast<size_t>(elems));
    file.read(tensor, 0, elems, DType::kF32, values.data());
    return values;
  };
  std::map<std::string, std::pair<std::vector<float>, int64_t>> factor;  // with its columns
  for (const StoredTensor& tensor : factors.tensors())
    factor[tensor.name] = {values_of(factors, tensor, tensor.elems()), tensor.shape.back()};
  const std::string prefix = "base_model.model.";
  int64_t adapted = 0;
  REQUIRE(merged.tensors().size() == base.tensors().size());
  for (const auto& [name, entry] : base.tensors()) {
    CAPTURE(name);
    const StoredTensor& tensor = *merged.find(name);
    CHECK(tensor.dtype() == DType::kF16);
    const std::vector<float> before = values_of(base, name, tensor.elems()),
                             after = values_of(merged, name, tensor.elems());
    const std::string module = prefix + name.substr(0, name.rfind('.'));
    const auto a = factor.find(module + ".lora_A.weight"), b = factor.find(module + ".lora_B.weight");
    if (a == factor.end()) {
      CHECK(after == before);
      continue;
    }
    ++adapted;
    const auto [rank, columns] = std::pair(b->second.second, a->second.second);
    for (int64_t i = 0; i < tensor.elems(); ++i) {
      double sum = 0;  // alpha 8, rank 4
      for (int64_t k = 0; k < rank; ++k)
        sum += 2.0 * b->second.first[static_cast<size_t>(i / columns * rank + k)] *
               a->second.first[static_cast<size_t>(k * columns + i % columns)];
      const double exact = before[static_cast<size_t>(i)] + sum;
      REQUIRE(std::abs(after[static_cast<size_t>(i)] - exact) <= std::max(std::abs(exact) * 0x1.01p-11, 0x1p-25));
    }
  }
  CHECK(adapted == 21);
}

TEST_CASE("merging leaves the base's weights in other formats behind, however large") {
  namespace fs = std::filesystem;
  const fs::path golden = kGoldenModels / "llama2";
  const TemporaryFolder folder;
  const fs::path base = folder.path() / "base", out = folder.path() / "merged";
  fs::copy(golden, base);
  for (const char* name : {"consolidated.00.pth", "tf_model.h5", "notes.txt"}) write_file(base / name, "x");
  fs::resize_file(base / "consolidated.00.pth", uintmax_t{3} << 30);  // a hole
  merge_adapter(base, golden / "adapter_saved", out);
  CHECK(fs::exists(out / "notes.txt"));
  CHECK(!fs::exists(out / "consolidated.00.pth"));
  CHECK(!fs::exists(out / "tf_model.h5"));
}

TEST_CASE("a merged model's files name the tokens of the adapter's tokenizer") {
  namespace fs = std::filesystem;
  const fs::path golden = kGoldenModels / "llama2";
  const TemporaryFolder folder;
  const fs::path base = folder.path() / "base", adapter = folder.path() / "adapter", out = folder.path() / "merged";
  fs::copy(golden, base);
  fs::copy(golden / "adapter_saved", adapter);
  const char* const tokenizer =
      R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2}, "unk_token": "a"}})";
  for (const fs::path& to : {base, adapter}) write_file(to / "tokenizer.json", tokenizer);
  write_file(base / "tokenizer_config.json", R"({"eos_token": "b"})");
  write_file(base / "generation_config.json", R"({"eos_token_id": [1]})");
  write_file(adapter / "tokenizer_config.json", R"({"eos_token": "c"})");
  merge_adapter(base, adapter, out);
  const auto id_in = [&](const char* name) {
    return nlohmann::json::parse(read_file(out / name, 1 << 20))["eos_token_id"];
  };
  CHECK(id_in("config.json") == 2);
  CHECK(id_in("generation_config.json") == nlohmann::json{2, 1});
}

TEST_CASE("a merged model ends where the adapter was taught to end") {
  namespace fs = std::filesystem;
  const fs::path golden = kGoldenModels / "llama2";
  const TemporaryFolder folder;
  const fs::path base = folder.path() / "base", adapter = folder.path() / "adapter", out = folder.path() / "merged";
  fs::copy(golden, base);
  fs::copy(golden / "adapter_saved", adapter);
  write_file(base / "generation_config.json", R"({"eos_token_id": 1, "temperature": 0.5})");
  write_file(adapter / "generation_config.json", R"({"eos_token_id": [1, 2]})");
  merge_adapter(base, adapter, out);
  CHECK(nlohmann::json::parse(read_file(out / "generation_config.json", 1 << 20)) ==
        nlohmann::json{{"eos_token_id", {1, 2}}, {"temperature", 0.5}});
}
