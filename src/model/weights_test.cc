#include "model/weights.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/decoder/decoder.h"
#include "model/decoder/parts.h"
#include "model/stored_weights.h"
#include "tests/support/golden_models.h"
#include "tests/support/piecewise_store.h"

using namespace spillway;
using spillway::testing::kGoldenModels;
using spillway::testing::kTinyModels;
using spillway::testing::PiecewiseStore;

namespace {

// The tensors that llama2's config asks for, all zero, to change before writing.
std::map<std::string, TensorSpec> llama2_tensors() {
  std::map<std::string, TensorSpec> result;
  for (const Parameter& p : parameters_of(*read_model(kGoldenModels / "llama2"))) {
    if (p.is_of_model()) result[p.name] = {p.name, DType::kF32, p.shape.dims()};
  }
  return result;
}

void write(const std::filesystem::path& path, const std::map<std::string, TensorSpec>& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, spec] : tensors) specs.push_back(spec);
  SafetensorsWriter writer(path, specs);
  for (const TensorSpec& spec : specs) {
    if (spec.dtype == DType::kI32) {
      writer.append(spec.name, std::vector<int32_t>(static_cast<size_t>(spec.elems())).data(), DType::kI32,
                    spec.elems());
    } else {
      writer.append(spec.name, std::vector<float>(static_cast<size_t>(spec.elems())).data(), DType::kF32, spec.elems());
    }
  }
  writer.commit();
}

template <typename Function>
std::string load_error(const Function& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string open_error(const std::map<std::string, TensorSpec>& tensors) {
  const TemporaryFolder folder;
  write(folder.path() / "model.safetensors", tensors);
  return load_error(
      [&] { (void)open_model_weights(folder.path(), parameters_of(*read_model(kGoldenModels / "llama2"))); });
}

}  // namespace

TEST_CASE("every golden model holds exactly the tensors that its config describes") {
  for (const char* name : kTinyModels) {
    CAPTURE(name);
    const LoraOptions lora = read_adapter_options(kGoldenModels / name / "adapter");
    CHECK(lora.r == 4);
    const ParameterTable parameters = parameters_of(*read_model(kGoldenModels / name), {.lora = lora});
    const SafetensorsFolder folder = open_model_weights(kGoldenModels / name, parameters);
    std::set<std::string> of_model;
    for (const Parameter& p : parameters)
      if (p.is_of_model()) of_model.insert(p.source.name);
    CHECK(folder.tensors().size() == of_model.size());
    CHECK(open_adapter_weights(kGoldenModels / name / "adapter", parameters, lora).tensors().size() > 0);
  }
}

TEST_CASE("a missing, surplus, misshapen or integer tensor is named") {
  auto tensors = llama2_tensors();
  CHECK(open_error(tensors).empty());
  SUBCASE("missing") {
    tensors.erase("model.norm.weight");
    tensors.erase("lm_head.weight");
    CHECK(open_error(tensors).find("expected a tensor 'model.norm.weight' and 1 more, got none") != std::string::npos);
  }
  SUBCASE("surplus") {
    tensors["model.layers.2.mlp.up_proj.weight"] = {"model.layers.2.mlp.up_proj.weight", DType::kF32, {48, 32}};
    CHECK(open_error(tensors).find("got 'model.layers.2.mlp.up_proj.weight'; use") != std::string::npos);
  }
  SUBCASE("misshapen") {
    tensors["lm_head.weight"].shape = {97, 32};
    CHECK(open_error(tensors).find("expected 'lm_head.weight' of shape [96, 32], got [97, 32]") != std::string::npos);
  }
  SUBCASE("integer") {
    tensors["model.norm.weight"].dtype = DType::kI32;
    CHECK(open_error(tensors).find("in F32, F16 or BF16, got 'I32'") != std::string::npos);
  }
  SUBCASE("what old Llama files keep beside is allowed") {
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
        "model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {4}};
    CHECK(open_error(tensors).empty());
  }
}

TEST_CASE("weights are read into the graph's weights of the same names, the frequencies of the rope are computed") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "qwen3_tied");
  Graph graph;
  Builder b(graph);
  const ParameterTable parameters = make_decoder(config)->build(b, {.dtype = DType::kBF16, .tokens = 8}).parameters;
  const SafetensorsFolder folder = open_model_weights(kGoldenModels / "qwen3_tied", parameters);
  const ValueId elsewhere = b.input("elsewhere", {DType::kF32, {1}}, ValueKind::kTrainableWeight);
  PiecewiseStore store(graph, 5);
  load_base_weights(parameters, folder, store);
  const std::vector<float> frequencies = rope_inverse_frequencies(config.ropes[0], config.layers[0].attention.head_dim);
  REQUIRE(frequencies.size() == 8);
  CHECK(std::memcmp(store.bytes(graph.find("rope.inv_freq")).data(), frequencies.data(), 32) == 0);
  CHECK(store.bytes(elsewhere) == std::vector<std::byte>(4, std::byte{0xA5}));
  std::vector<float> expected(32);
  folder.read("model.norm.weight", DType::kF32, expected.data());
  const auto* norm = reinterpret_cast<const bf16*>(store.bytes(graph.find("model.norm.weight")).data());
  for (size_t i = 0; i < 32; ++i) CHECK(norm[i].bits == to_bf16(expected[i]).bits);
}

TEST_CASE("rows of added tokens are the mean of the stored ones") {
  const ModelPtr model = read_model(kGoldenModels / "llama2");
  Graph graph;
  Builder b(graph);
  const ParameterTable parameters =
      model->text()->with_vocab_size(model->text()->vocab_size + 3)->build(b, {.tokens = 8}).parameters;
  const SafetensorsFolder folder = open_model_weights(kGoldenModels / "llama2", parameters);
  PiecewiseStore store(graph, 45);
  load_base_weights(parameters, folder, store);
  std::vector<float> stored(96 * 32);
  folder.read(kEmbedding, DType::kF32, stored.data());
  const auto* grown = reinterpret_cast<const float*>(store.bytes(graph.find(kEmbedding)).data());
  CHECK(std::equal(stored.begin(), stored.end(), grown));
  for (size_t column = 0; column < 32; ++column) {
    double sum = 0;
    for (size_t row = 0; row < 96; ++row) sum += static_cast<double>(stored[row * 32 + column]);
    for (size_t row = 96; row < 99; ++row) CHECK(grown[row * 32 + column] == doctest::Approx(sum / 96));
  }
}

TEST_CASE("weights that stay in the files are not loaded, but NaN in them is refused") {
  Graph graph;
  Builder b(graph);
  const ValueId id = b.input("w", {DType::kF32, {96, 32}}, ValueKind::kFrozenWeight);
  ParameterTable parameters;
  parameters.add({.name = "w", .shape = {96, 32}, .source = {"w", {96, 32}}, .values = {id}});
  const auto load = [&](float last) {
    const TemporaryFolder folder;
    const TensorSpec spec{"w", DType::kF32, {96, 32}};
    SafetensorsWriter writer(folder.path() / "model.safetensors", {spec});
    std::vector<float> values(96 * 32, 1.0f);
    values.back() = last;
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
    writer.commit();
    PiecewiseStore store(graph, 1000);
    store.in_files = {id};
    return load_error([&] { load_base_weights(parameters, SafetensorsFolder(folder.path()), store); });
  };
  CHECK(load(2).empty());
  CHECK(load(std::numeric_limits<float>::quiet_NaN()).find("got NaN or infinity at element 3071;") !=
        std::string::npos);
}

TEST_CASE("frozen weights of the files' dtype are found where they lie, all others are not") {
  const TemporaryFolder folder;
  // Two shards, and bytes that tell where a range begins.
  const std::vector<std::vector<TensorSpec>> shards = {
      {{"same", DType::kBF16, {3, 5}}, {"wide", DType::kF32, {3}}, {"turned", DType::kBF16, {5, 3}}},
      {{"other", DType::kBF16, {7}}, {"trained", DType::kBF16, {7}}, {"half", DType::kF16, {7}}}};
  nlohmann::json index;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = fmt::format("model-0000{}-of-00002.safetensors", shard + 1);
    SafetensorsWriter writer(folder.path() / name, shards[shard]);
    for (const TensorSpec& spec : shards[shard]) {
      std::vector<float> values(static_cast<size_t>(spec.elems()), static_cast<float>(spec.name[0]));
      writer.append(spec.name, values.data(), DType::kF32, spec.elems());
      index["weight_map"][spec.name] = name;
    }
    writer.commit();
  }
  write_file(folder.path() / "model.safetensors.index.json", index.dump());

  ParameterTable parameters;
  const auto add = [&](const char* name, DType dtype, const Shape& shape, bool trained = false) {
    const auto id = static_cast<ValueId>(parameters.size());
    return parameters.add(
        {.name = name, .shape = shape, .dtype = dtype, .trained = trained, .source = {name, shape}, .values = {id}});
  };
  add("computed", DType::kF32, {4});
  const size_t other = add("other", DType::kBF16, {7});
  const size_t same = add("same", DType::kBF16, {3, 5});
  add("wide", DType::kBF16, {3});
  add("turned", DType::kBF16, {3, 5});
  add("trained", DType::kBF16, {7}, true);
  add("half", DType::kBF16, {7});
  StoredWeights stored;
  add_stored_weights(parameters, SafetensorsFolder(folder.path()), stored);
  CHECK(stored.held(parameters.size()) == std::vector<bool>{false, true, true, false, false, false, false});
  CHECK(stored.files.size() == 2);
  for (const size_t i : {other, same}) {
    const Parameter& p = parameters[i];
    const FilePlace place = stored.places.at(p.value());
    std::vector<uint16_t> bits(static_cast<size_t>(p.shape.elems()));
    ReadFile(nth(stored.files, place.file)).read(place.offset, std::as_writable_bytes(std::span(bits)));
    CHECK(bits == std::vector<uint16_t>(bits.size(), to_bf16(static_cast<float>(p.name[0])).bits));
  }
}

TEST_CASE("every base weight of a LoRA job on files of its dtype stays in the files") {
  const ModelPtr model = read_model(kGoldenModels / "qwen3_tied");
  const SafetensorsFolder folder(kGoldenModels / "qwen3_tied");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph graph;
    Builder b(graph);
    const ParameterTable parameters = model->build(b, {.dtype = dtype, .tokens = 8}).parameters;
    StoredWeights stored;
    add_stored_weights(parameters, folder, stored);
    const std::vector<bool> found = stored.held(graph.values.size());
    const bool is_stored = folder.find(kEmbedding)->dtype() == dtype;
    for (const Parameter& p : parameters) CHECK(nth(found, p.value()) == (is_stored && p.is_of_model()));
  }
}

TEST_CASE("a head beside tied embeddings must equal them") {
  DecoderConfig config = read_decoder_config(kGoldenModels / "llama2");
  config.tie_word_embeddings = true;
  Graph graph;
  Builder b(graph);
  const ParameterTable parameters = make_decoder(config)->build(b, {.tokens = 8}).parameters;
  PiecewiseStore store(graph, 1000);
  const auto load = [&](const SafetensorsFolder& folder) { load_base_weights(parameters, folder, store); };
  const TemporaryFolder equal;
  write(equal.path() / "model.safetensors", llama2_tensors());
  CHECK(load_error([&] { load(open_model_weights(equal.path(), parameters)); }).empty());
  CHECK(load_error([&] {
          load(open_model_weights(kGoldenModels / "llama2", parameters));
        }).find("set tie_word_embeddings to false") != std::string::npos);
}
