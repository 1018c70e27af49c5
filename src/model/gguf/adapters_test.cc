// Adapters as GGUF: against llama.cpp's converter, and where that reads none, against merged weights in float64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/gguf.h"
#include "model/adapter.h"
#include "model/gguf/export.h"
#include "model/model.h"
#include "model/parameters.h"
#include "tests/support/gguf_family_goldens.h"

namespace fs = std::filesystem;
using namespace spillway;
using namespace spillway::testing;

namespace {

// Writes an adapter with factors of rank 2, and 3 of the first tensor, for all experts and routers of a model; returns
// the number of tensors that have some.
size_t write_mixture_adapter(const fs::path& folder, const Model& model) {
  LoraOptions lora{.r = 2, .alpha = 6};
  for (const Parameter& p : parameters_of(model))
    if (!p.tensor.name.empty()) lora.target_parameters.insert(p.tensor.name);
  if (lora.target_parameters.empty()) return 0;
  lora.ranks[*lora.target_parameters.begin()] = 3;
  const ParameterTable parameters = parameters_of(model, {.lora = lora});
  json shapes = json::object();
  for (const Parameter& p : parameters)
    if (p.is_factor()) shapes[p.name] = p.shape.dims();
  fs::create_directory(folder);
  write_file(folder / "adapter_config.json", adapter_config_json(parameters, lora, "x"));
  write_weights(folder / "adapter_model.safetensors", shapes);
  return lora.target_parameters.size();
}

std::vector<float> read_tensor(const GgufFile& file, const GgufTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elems()));
  file.read_rows(tensor, 0, tensor.elems() / tensor.row_elems(), values.data());
  return values;
}

// Returns what llama.cpp adds to a tensor, [experts, rows, columns] or [rows, columns]: alpha / rank B A, in float64.
std::vector<double> update_of(const GgufFile& adapter, const GgufTensor& a, const GgufTensor& b) {
  const int64_t rank = b.shape.back(), rows = b.shape[b.shape.size() - 2], columns = a.shape.back();
  REQUIRE(a.shape[a.shape.size() - 2] == rank);
  const std::vector<float> of_a = read_tensor(adapter, a), of_b = read_tensor(adapter, b);
  const double scale = adapter.get<double>("adapter.lora.alpha") / static_cast<double>(rank);
  std::vector<double> result;
  for (int64_t row = 0; row < b.elems() / rank; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < rank; ++k)
        sum += double{nth(of_b, row * rank + k)} * nth(of_a, (row / rows * rank + k) * columns + column);
      result.push_back(scale * sum);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("an exported adapter of experts and routers adds what the merged export has more than the base") {
  size_t mixtures = 0;
  for (const auto& [name, family] : family_goldens().items()) {
    INFO(name);
    const TemporaryFolder folder;
    const fs::path model = write_family(folder, family), adapter = folder.path() / "adapter";
    if (write_mixture_adapter(adapter, *read_model(model)) == 0) continue;
    ++mixtures;
    export_gguf(model, {}, folder.path() / "base.gguf", in_type("f32"));
    export_gguf(model, adapter, folder.path() / "merged.gguf", in_type("f32"));
    if (name == "gemma4_moe") {  // whose experts have scales
      CHECK_THROWS_WITH_AS(export_gguf_adapter(model, adapter, folder.path() / "adapter.gguf", in_type("f32")),
                           doctest::Contains("got some of blk.0.ffn_down_exps.weight beside blk.0.ffn_down_exps.scale"),
                           InputError);
      CHECK_FALSE(fs::exists(folder.path() / "adapter.gguf"));
      continue;
    }
    export_gguf_adapter(model, adapter, folder.path() / "adapter.gguf", in_type("f32"));
    const GgufFile base(folder.path() / "base.gguf"), merged(folder.path() / "merged.gguf"),
        file(folder.path() / "adapter.gguf");
    size_t changed = 0;
    for (const auto& [tensor, entry] : base.tensors()) {
      INFO(tensor);
      const std::vector<float> before = read_tensor(base, entry),
                               after = read_tensor(merged, *merged.find_tensor(tensor));
      const GgufTensor *a = file.find_tensor(tensor + ".lora_a"), *b = file.find_tensor(tensor + ".lora_b");
      REQUIRE((a != nullptr) == (before != after));
      if (a == nullptr) continue;
      REQUIRE(b != nullptr);
      ++changed;
      CHECK(a->shape.size() == entry.shape.size());
      const std::vector<double> update = update_of(file, *a, *b);
      REQUIRE(update.size() == before.size());
      double worst = 0;
      for (size_t i = 0; i < update.size(); ++i) worst = std::max(worst, std::abs(before[i] + update[i] - after[i]));
      CHECK(worst < 1e-5);
    }
    CHECK(2 * changed == file.tensors().size());
    CHECK(changed > 0);
  }
  CHECK(mixtures == 20);
}

TEST_CASE("a family's adapter is what llama.cpp's converter makes of it") {
  for (const std::string name :
       {"phi3", "glm4", "granite", "gemma3", "qwen3_5", "lfm2", "gpt_oss", "mixtral", "qwen3_moe", "glm4_moe"}) {
    INFO(name);
    const TemporaryFolder folder;
    const json& family = family_goldens().at(name);
    const fs::path model = write_family(folder, family), adapter = folder.path() / "adapter";
    fs::create_directory(adapter);
    write_file(adapter / "adapter_config.json", family.at("adapter").at("config").dump());
    write_weights(adapter / "adapter_model.safetensors", family.at("adapter").at("weights"));
    export_gguf_adapter(model, adapter, folder.path() / "x.gguf", in_type("f32"));
    const GgufFile file(folder.path() / "x.gguf");
    check_tensors(file, family.at("adapter").at("tensors"), "f32");
    check_metadata(file, family.at("adapter").at("metadata"), name);
  }
}
