#include "model/storages/quantised_files.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/merge.h"
#include "model/quantised/base_format.h"
#include "model/quantised/quantise_model.h"
#include "model/quantised/quantised_tensors.h"
#include "model/storages/quantised.h"
#include "model/stored_weights.h"
#include "model/weights.h"
#include "tests/support/dequantised.h"
#include "tests/support/source_folder.h"

using namespace spillway;
namespace fs = std::filesystem;

namespace {

// The output of transformers and bitsandbytes for tools/make_quantised_goldens.py.
const fs::path kFilesGolden = testing::source_folder() / "tests/golden/quantised";

std::vector<float> floats_of(const SafetensorsFolder& folder, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(folder.find(name)->elems()));
  folder.read(name, DType::kF32, values.data());
  return values;
}

nlohmann::json storage_config(const fs::path& folder) {
  return nlohmann::json::parse(read_file(folder / "config.json", 1 << 20));
}

// An adapter of rank 1 whose product is zero but for q_proj's first element, to which it adds 1.
void write_adapter(const fs::path& folder, const std::optional<LinearStorage>& base) {
  fs::create_directory(folder);
  const LoraOptions lora{.r = 1, .alpha = 1};
  const ParameterTable parameters = parameters_of(*read_model(kFilesGolden / "dense"), {.lora = lora});
  write_file(folder / "adapter_config.json", adapter_config_json(parameters, lora, "base"));
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters)
    if (p.is_factor()) specs.push_back({adapter_tensor_name(p.name), DType::kF32, p.shape.dims()});
  std::map<std::string, std::string> metadata = default_metadata();
  metadata.merge(base_format_metadata(base));
  SafetensorsWriter writer(folder / "adapter_model.safetensors", specs, metadata);
  for (const TensorSpec& spec : specs) {
    std::vector<float> values(static_cast<size_t>(spec.elems()));
    if (spec.name.find("q_proj") != std::string::npos) values[0] = 1;
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
}

// Returns a weight with the adapter's product added, rounded to bf16 as in the files.
std::vector<float> with_product(const std::string& name, std::vector<float> values) {
  if (name.find("q_proj") != std::string::npos) values[0] += 1;
  for (float& value : values) value = to_float(to_bf16(value));
  return values;
}

}  // namespace

TEST_CASE("the weights of a quantised folder are read as the library dequantises them") {
  for (const char* name : {"nf4", "nf4_bf16_storage", "fp4", "int8"}) {
    CAPTURE(name);
    const ParameterTable parameters = parameters_of(*read_model(kFilesGolden / name), {.dtype = DType::kBF16});
    const SafetensorsFolder folder = open_model_weights(kFilesGolden / name, parameters);
    const SafetensorsFolder wanted(kFilesGolden / name, "dequantised");
    int coded = 0;
    for (const Parameter& p : parameters) {
      if (!p.is_of_model() || !p.storage->is_coded()) continue;
      CAPTURE(p.name);
      ++coded;
      CHECK(p.is_stored_as_used());
      std::vector<bf16> values(static_cast<size_t>(p.shape.elems()));
      StoredWeight(folder, p).read({values.data(), DType::kBF16, p.shape}, 0);
      const std::vector<float> expected = floats_of(wanted, p.name);
      for (size_t i = 0; i < values.size(); ++i) REQUIRE(to_float(values[i]) == expected[i]);
    }
    CHECK(coded == 7);
  }
}

TEST_CASE("codes and scales of a quantised folder are used where the files have them") {
  for (const auto& [name, per_weight] : {std::pair{"nf4", 2}, {"nf4_bf16_storage", 2}, {"fp4", 2}, {"int8", 2}}) {
    CAPTURE(name);
    Graph graph;
    Builder builder(graph);
    const ParameterTable parameters =
        read_model(kFilesGolden / name)->build(builder, {.dtype = DType::kBF16, .tokens = 4}).parameters;
    StoredWeights stored;
    add_stored_weights(parameters, open_model_weights(kFilesGolden / name, parameters), stored);
    size_t coded = 0;
    for (const Parameter& p : parameters)
      for (const ValueId value : p.values) coded += p.storage->is_coded() && stored.places.contains(value) ? 1U : 0U;
    CHECK(coded == 7U * static_cast<unsigned>(per_weight));
  }
}

TEST_CASE("an adapter is merged into a quantised folder's dense weights, in the dtype before they were quantised") {
  for (const char* name : {"nf4", "nf4_bf16_storage", "fp4", "int8"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const fs::path adapter = folder.path() / "adapter", out = folder.path() / "out";
    write_adapter(adapter, {});
    merge_adapter(kFilesGolden / name, adapter, out);
    CHECK_FALSE(storage_config(out).contains("quantization_config"));
    const SafetensorsFolder merged(out), dense(kFilesGolden / "dense"), wanted(kFilesGolden / name, "dequantised");
    CHECK(merged.tensors().size() == dense.tensors().size());
    for (const auto& [tensor, entry] : dense.tensors()) {
      CAPTURE(tensor);
      REQUIRE(merged.find(tensor));
      CHECK(merged.find(tensor)->dtype_name == "BF16");
      // int8 has no dtype: its elements are f32 until the sum is rounded, which only the changed weight shows.
      if (std::string(name) == "int8" && tensor.find("q_proj") != std::string::npos) continue;
      const bool coded = wanted.find(tensor);
      CHECK(floats_of(merged, tensor) == with_product(tensor, floats_of(coded ? wanted : dense, tensor)));
    }
    (void)open_model_weights(out, parameters_of(*read_model(out)));
  }
}

TEST_CASE("an adapter is merged into the weights that it was trained on") {
  const TemporaryFolder folder;
  const fs::path adapter = folder.path() / "adapter", quantised = folder.path() / "quantised";
  const LinearStorage base{.storage = quantised_storage({.weight_dtype = DType::kBF16}),
                           .dense_modules = {"model.layers.0.mlp.up_proj"}};
  write_adapter(adapter, base);
  merge_adapter(kFilesGolden / "dense", adapter, folder.path() / "out", MergeBase::kQuantised);
  (void)quantise_model(kFilesGolden / "dense", quantised);
  const SafetensorsFolder merged(folder.path() / "out"), codes(quantised), dense(kFilesGolden / "dense");
  for (const auto& [name, tensor] : find_quantised_tensors(codes)) {
    CAPTURE(name);
    std::vector<float> values = testing::dequantised(codes, tensor);
    if (name == "model.layers.0.mlp.up_proj.weight") values = floats_of(dense, name);
    CHECK(floats_of(merged, name) == with_product(name, values));
  }
  // Without asking for it, into the files' weights.
  merge_adapter(kFilesGolden / "dense", adapter, folder.path() / "files");
  const SafetensorsFolder plain(folder.path() / "files");
  for (const auto& [name, tensor] : dense.tensors())
    CHECK(floats_of(plain, name) == with_product(name, floats_of(dense, name)));
}

TEST_CASE("an adapter that does not say what it was trained on is merged into the files alone") {
  const TemporaryFolder folder;
  const fs::path adapter = folder.path() / "adapter", out = folder.path() / "out";
  write_adapter(adapter, {});
  CHECK_THROWS_AS(merge_adapter(kFilesGolden / "dense", adapter, out, MergeBase::kQuantised), InputError);
  CHECK_FALSE(fs::exists(out));
  // Files that hold codes are what the run saw.
  merge_adapter(kFilesGolden / "nf4", adapter, out, MergeBase::kQuantised);
  CHECK(fs::exists(out / "model.safetensors"));
}

TEST_CASE("what an adapter was trained on is told from a base that is kept otherwise, which it is not merged into") {
  const TemporaryFolder folder;
  const fs::path adapter = folder.path() / "adapter", out = folder.path() / "out";
  write_adapter(adapter, LinearStorage{.storage = quantised_storage({.coding = WeightCoding::kNf4}),
                                       .dense_modules = {"model.layers.0.self_attn.q_proj"}});
  const auto change_in = [&](const char* model) {
    return find_base_change(adapter, parameters_of(*read_model(kFilesGolden / model)));
  };
  const std::optional<BaseChange> dense = change_in("dense"), eight = change_in("int8");
  REQUIRE(dense);
  CHECK(dense->then == "nf4");
  CHECK(dense->now == "dense");
  REQUIRE(eight);
  CHECK(eight->now == "int8");
  REQUIRE(change_in("nf4"));
  CHECK(change_in("nf4")->module == "model.layers.0.self_attn.q_proj");
  write_adapter(folder.path() / "whole", LinearStorage{.storage = quantised_storage({.coding = WeightCoding::kNf4})});
  CHECK_FALSE(find_base_change(folder.path() / "whole", parameters_of(*read_model(kFilesGolden / "nf4"))));
  CHECK_FALSE(find_base_change(folder.path() / "none", parameters_of(*read_model(kFilesGolden / "dense"))));
  CHECK_THROWS_WITH_AS(merge_adapter(kFilesGolden / "int8", folder.path() / "whole", out, MergeBase::kQuantised),
                       doctest::Contains("as the adapter was trained, got int8"), InputError);
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("how a base was quantised is written and read again") {
  const TemporaryFolder folder;
  for (const WeightCoding coding : {WeightCoding::kNf4, WeightCoding::kFp4, WeightCoding::kInt8}) {
    const QuantisedFormat format{
        .coding = coding, .block_size = 128, .double_quant = false, .weight_dtype = DType::kF16};
    const fs::path adapter = folder.path() / std::to_string(static_cast<int>(coding));
    write_adapter(adapter, LinearStorage{.storage = quantised_storage(format), .dense_modules = {"a.b", "c"}});
    const std::optional<LinearStorage> read = read_base_format(adapter);
    REQUIRE(read);
    CHECK(quantised_format(*read->storage) == format);
    CHECK(read->dense_modules == std::set<std::string, std::less<>>{"a.b", "c"});
  }
  write_adapter(folder.path() / "plain", LinearStorage{});
  CHECK_FALSE(read_base_format(folder.path() / "plain"));
}

TEST_CASE("a folder whose config and weights contradict each other is refused") {
  const TemporaryFolder folder;
  const auto made = [&](const char* name, const char* weights, const char* config) {
    const fs::path path = folder.path() / name;
    fs::create_directory(path);
    fs::copy_file(kFilesGolden / weights / "model.safetensors", path / "model.safetensors");
    fs::copy_file(kFilesGolden / config / "config.json", path / "config.json");
    return path;
  };
  CHECK_THROWS_AS((void)read_model(made("dense", "dense", "nf4")), InputError);
  CHECK_THROWS_AS((void)read_model(made("eight", "int8", "nf4")), InputError);
  CHECK_THROWS_AS((void)read_model(made("four", "fp4", "int8")), InputError);
  const fs::path unsaid = made("unsaid", "nf4", "dense");
  CHECK_THROWS_AS((void)open_model_weights(unsaid, parameters_of(*read_model(unsaid))), InputError);
  const fs::path other = made("other", "nf4", "nf4");
  nlohmann::json config = storage_config(other);
  config["intermediate_size"] = 80;
  fs::permissions(other / "config.json", fs::perms::owner_write, fs::perm_options::add);
  write_file(other / "config.json", config.dump());
  CHECK_THROWS_AS((void)open_model_weights(other, parameters_of(*read_model(other))), InputError);
}
