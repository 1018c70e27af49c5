#include "model/quantised/quantise_model.h"

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
#include "model/quantised/quantised_tensors.h"
#include "tensor/codebook.h"
#include "tests/support/dequantised.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using spillway::testing::dequantised;
namespace fs = std::filesystem;

namespace {

// The output of transformers and bitsandbytes for tools/make_quantised_goldens.py.
const fs::path kQuantiseGolden = spillway::testing::source_folder() / "tests/golden/quantised";

std::string text_of(const fs::path& path) { return read_file(path, 1 << 24); }
nlohmann::ordered_json json_of(const fs::path& path) { return nlohmann::ordered_json::parse(text_of(path)); }

std::string model_bytes(const SafetensorsFolder& folder, const std::string& name) {
  std::string bytes(static_cast<size_t>(folder.find(name)->bytes), '\0');
  folder.read_bytes(name, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// The scales of blocks whose scales are codes themselves.
std::vector<float> read_scales(const SafetensorsFolder& folder, const QuantisedTensor& tensor) {
  const std::string codes = model_bytes(folder, tensor.absmax());
  std::vector<float> nested(static_cast<size_t>(folder.find(tensor.nested_absmax())->elems())), scales;
  folder.read(tensor.nested_absmax(), DType::kF32, nested.data());
  for (size_t i = 0; i < codes.size(); ++i)
    scales.push_back(kDynamicSigned[static_cast<uint8_t>(codes[i])] * nested[i / 256] + tensor.four->nested_offset);
  return scales;
}

const QuantisedFormat kNf4Format, kFp4Format{WeightCoding::kFp4, 64, false}, kInt8Format{.coding = WeightCoding::kInt8};

// The same tensors with the same dtypes and shapes, but for the padded quant_states.
void check_headers(const SafetensorsFolder& written, const SafetensorsFolder& golden) {
  REQUIRE(written.tensors().size() == golden.tensors().size());
  for (const auto& [name, entry] : golden.tensors()) {
    CAPTURE(name);
    const StoredTensor* tensor = written.find(name);
    REQUIRE(tensor);
    CHECK(tensor->dtype_name == entry.tensor->dtype_name);
    if (name.find("quant_state") == std::string::npos) CHECK(tensor->shape == entry.tensor->shape);
  }
}

}  // namespace

TEST_CASE("a quantised folder is the one that transformers and bitsandbytes write") {
  for (const auto& [name, format] : {std::pair{"nf4", kNf4Format}, {"fp4", kFp4Format}, {"int8", kInt8Format}}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "out";
    const QuantiseReport report = quantise_model(kQuantiseGolden / "dense", out, {.format = format});
    CHECK(report.quantised == 7);
    CHECK(json_of(out / "config.json")["quantization_config"].size() == 13);
    nlohmann::ordered_json golden_config = json_of(kQuantiseGolden / name / "config.json")["quantization_config"];
    const bool four = format.coding != WeightCoding::kInt8;
    if (four) golden_config["bnb_4bit_compute_dtype"] = "bfloat16";  // its default is float32, which is slow there
    CHECK(json_of(out / "config.json")["quantization_config"].dump() == golden_config.dump());
    const SafetensorsFolder written(out), golden(kQuantiseGolden / name);
    check_headers(written, golden);
    const QuantisedTensors tensors = find_quantised_tensors(written);
    for (const auto& [weight, wanted] : find_quantised_tensors(golden)) {
      CAPTURE(weight);
      const QuantisedTensor& tensor = tensors.at(weight);
      const bool nested = four && format.double_quant;
      if (format.coding != WeightCoding::kFp4)  // which has two zeros
        CHECK(model_bytes(written, weight) == model_bytes(golden, weight));
      if (!nested) CHECK(dequantised(written, tensor) == dequantised(golden, wanted));
      if (!nested) CHECK(model_bytes(written, tensor.absmax()) == model_bytes(golden, tensor.absmax()));
      if (nested) {
        CHECK(tensor.four->nested_offset == doctest::Approx(wanted.four->nested_offset).epsilon(1e-6));
        CHECK(tensor.four->format.weight_dtype == DType::kBF16);
        CHECK(model_bytes(written, tensor.quant_map()) == model_bytes(golden, tensor.quant_map()));
        CHECK(model_bytes(written, tensor.nested_quant_map()) == model_bytes(golden, tensor.nested_quant_map()));
      }
    }
    for (const auto& [tensor, entry] : golden.tensors()) {
      if (tensor.find("proj") == std::string::npos) CHECK(model_bytes(written, tensor) == model_bytes(golden, tensor));
    }
  }
}

TEST_CASE("weights may be converted before they are quantised, and shards be small") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  int64_t told = 0, total = 0;
  (void)quantise_model(kQuantiseGolden / "dense", out,
                       {.format = kNf4Format,
                        .dtype = DType::kF16,
                        .max_shard_bytes = 10'000,
                        .progress = [&](int64_t done, int64_t of) { told = done, total = of; }});
  CHECK(told == total);
  CHECK(fs::exists(out / "model.safetensors.index.json"));
  CHECK(json_of(out / "config.json")["dtype"] == "float16");
  CHECK(json_of(out / "config.json")["quantization_config"]["bnb_4bit_compute_dtype"] == "float16");
  const SafetensorsFolder written(out);
  CHECK(written.find("lm_head.weight")->dtype_name == "F16");
  for (const auto& [name, tensor] : find_quantised_tensors(written)) {
    CHECK(tensor.four->format.weight_dtype == DType::kF16);
    // bf16 of moderate size is exact in f16: the codes are the same.
    CHECK(model_bytes(written, name) == model_bytes(SafetensorsFolder(kQuantiseGolden / "nf4"), name));
  }
}

TEST_CASE("a model of f32 is quantised from f32, and other files come along") {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model", out = folder.path() / "out";
  fs::copy(spillway::testing::source_folder() / "tests/golden/models/qwen3", model, fs::copy_options::recursive);
  write_file(model / "tokenizer.json", "{}");
  write_file(model / "README.md", "of the model as it was");
  CHECK(quantise_model(model, out).quantised == 14);
  CHECK(text_of(out / "tokenizer.json") == "{}");
  CHECK_FALSE(fs::exists(out / "README.md"));
  const SafetensorsFolder written(out), base(model);
  for (const auto& [name, tensor] : find_quantised_tensors(written)) {
    CHECK(tensor.four->format.weight_dtype == DType::kF32);
    std::vector<float> weight(static_cast<size_t>(tensor.shape.elems()));
    base.read(name, DType::kF32, weight.data());
    const std::vector<float> scales = read_scales(written, tensor), values = dequantised(written, tensor);
    // The widest gap of NF4 is between -1 and -0.696.
    for (size_t i = 0; i < weight.size(); ++i) CHECK(std::abs(values[i] - weight[i]) <= 0.18F * scales[i / 64]);
  }
}

TEST_CASE("what cannot be quantised is refused, and nothing is left") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  CHECK_THROWS_AS((void)quantise_model(kQuantiseGolden / "nf4", out), InputError);
  CHECK_THROWS_AS((void)quantise_model(folder.path() / "none", out), InputError);
  CHECK_THROWS_AS((void)quantise_model(kQuantiseGolden / "dense", kQuantiseGolden / "dense"), InputError);
  const fs::path large = folder.path() / "large";
  fs::copy(kQuantiseGolden / "dense", large);
  {
    // 2^17 in bf16, as the first element of a linear layer.
    const SafetensorsFolder files(large);
    const int64_t at = files.find("model.layers.0.mlp.up_proj.weight")->offset;
    std::string bytes = text_of(large / "model.safetensors");
    nth(bytes, at) = '\0';
    nth(bytes, at + 1) = '\x48';
    write_file(large / "model.safetensors", bytes);
  }
  try {
    (void)quantise_model(large, out, {.format = kInt8Format});
    FAIL("int8 of 2^17");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("up_proj") != std::string::npos);
  }
  CHECK_FALSE(fs::exists(out));
  CHECK(quantise_model(large, out).quantised == 7);
}
