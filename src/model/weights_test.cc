#include "model/weights.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/stored_weights.h"
#include "model/transformer.h"
#include "tests/support/piecewise_store.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;
using spillway::testing::PiecewiseStore;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models";

// The tensors that llama2's config asks for, all zero, to change before writing.
std::map<std::string, TensorSpec> llama2_tensors() {
  std::map<std::string, TensorSpec> result;
  for (const WeightSpec& weight : model_weights(read_model_config(kGolden / "llama2"))) {
    std::vector<int64_t> shape;
    for (int axis = 0; axis < weight.shape.rank(); ++axis) shape.push_back(weight.shape[axis]);
    result[weight.name] = {weight.name, DType::kF32, shape};
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
std::string error_of(const Function& function) {
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
  return error_of([&] { (void)open_model_weights(folder.path(), read_model_config(kGolden / "llama2")); });
}

}  // namespace

TEST_CASE("every golden model holds exactly the tensors that its config describes") {
  for (const char* name :
       {"llama2", "llama32", "llama_linear", "llama_bias", "mistral", "qwen2", "qwen2_tied", "qwen3", "qwen3_tied"}) {
    CAPTURE(name);
    const ModelConfig config = read_model_config(kGolden / name);
    const SafetensorsFolder folder = open_model_weights(kGolden / name, config);
    CHECK(folder.tensors().size() == model_weights(config).size());
    const LoraOptions lora = read_adapter_options(kGolden / name / "adapter");
    CHECK(lora.r == 4);
    CHECK(open_adapter_weights(kGolden / name / "adapter", config, lora).tensors().size() > 0);
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
  const ModelConfig config = read_model_config(kGolden / "qwen3_tied");
  const SafetensorsFolder folder = open_model_weights(kGolden / "qwen3_tied", config);
  Graph graph;
  graph.values.push_back(
      {.name = std::string(kFinalNorm), .type = {DType::kBF16, {32}}, .kind = ValueKind::kFrozenWeight});
  graph.values.push_back({.name = "elsewhere", .type = {DType::kF32, {1}}, .kind = ValueKind::kTrainableWeight});
  graph.values.push_back(
      {.name = std::string(kRopeFrequencies), .type = {DType::kF32, {8}}, .kind = ValueKind::kFrozenWeight});
  PiecewiseStore store(graph, 5);
  load_base_weights(graph, config, folder, store);
  const std::vector<float> frequencies = rope_inverse_frequencies(config);
  REQUIRE(frequencies.size() == 8);
  CHECK(std::memcmp(store.bytes(2).data(), frequencies.data(), 32) == 0);
  CHECK(store.bytes(1) == std::vector<std::byte>(4, std::byte{0xA5}));
  std::vector<float> expected(32);
  folder.read(kFinalNorm, DType::kF32, expected.data());
  const auto* norm = reinterpret_cast<const bf16*>(store.bytes(0).data());
  for (size_t i = 0; i < 32; ++i) CHECK(norm[i].bits == to_bf16(expected[i]).bits);
}

TEST_CASE("rows of added tokens are the mean of the stored ones") {
  ModelConfig config = read_model_config(kGolden / "llama2");
  config.stored_vocab_size = config.vocab_size;
  config.vocab_size += 3;
  const SafetensorsFolder folder = open_model_weights(kGolden / "llama2", config);
  Graph graph;
  graph.values.push_back(
      {.name = std::string(kEmbedding), .type = {DType::kF32, {99, 32}}, .kind = ValueKind::kTrainableWeight});
  PiecewiseStore store(graph, 45);
  load_base_weights(graph, config, folder, store);
  std::vector<float> stored(96 * 32);
  folder.read(kEmbedding, DType::kF32, stored.data());
  const auto* grown = reinterpret_cast<const float*>(store.bytes(0).data());
  CHECK(std::equal(stored.begin(), stored.end(), grown));
  for (size_t column = 0; column < 32; ++column) {
    double sum = 0;
    for (size_t row = 0; row < 96; ++row) sum += static_cast<double>(stored[row * 32 + column]);
    for (size_t row = 96; row < 99; ++row) CHECK(grown[row * 32 + column] == doctest::Approx(sum / 96));
  }
}

TEST_CASE("weights that stay in the files are not loaded, but NaN in them is refused") {
  const ModelConfig config = read_model_config(kGolden / "llama2");
  Graph graph;
  graph.values.push_back(
      {.name = std::string(kEmbedding), .type = {DType::kF32, {96, 32}}, .kind = ValueKind::kFrozenWeight});
  const auto load = [&](float last) {
    const TemporaryFolder folder;
    const TensorSpec spec{std::string(kEmbedding), DType::kF32, {96, 32}};
    SafetensorsWriter writer(folder.path() / "model.safetensors", {spec});
    std::vector<float> values(96 * 32, 1.0f);
    values.back() = last;
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
    writer.commit();
    PiecewiseStore store(graph, 1000);
    store.in_files = {0};
    return error_of([&] { load_base_weights(graph, config, SafetensorsFolder(folder.path()), store); });
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

  Graph graph;
  Builder b(graph);
  (void)b.input("computed", {DType::kF32, {4}}, ValueKind::kFrozenWeight);
  const ValueId other = b.input("other", {DType::kBF16, {7}}, ValueKind::kFrozenWeight);
  const ValueId same = b.input("same", {DType::kBF16, {3, 5}}, ValueKind::kFrozenWeight);
  (void)b.input("wide", {DType::kBF16, {3}}, ValueKind::kFrozenWeight);
  (void)b.input("turned", {DType::kBF16, {3, 5}}, ValueKind::kFrozenWeight);
  (void)b.input("trained", {DType::kBF16, {7}}, ValueKind::kTrainableWeight);
  (void)b.input("half", {DType::kBF16, {7}}, ValueKind::kFrozenWeight);
  const StoredWeights stored = find_stored_weights(graph, SafetensorsFolder(folder.path()));
  CHECK(stored.in_files(graph.values.size()) == std::vector<bool>{false, true, true, false, false, false, false});
  CHECK(stored.files.size() == 2);
  for (const ValueId id : {other, same}) {
    const FilePlace place = stored.places.at(id);
    const Value& value = graph.value(id);
    std::vector<uint16_t> bits(static_cast<size_t>(value.type.shape.elems()));
    ReadFile(stored.files[static_cast<size_t>(place.file)]).read(place.offset, std::as_writable_bytes(std::span(bits)));
    CHECK(bits == std::vector<uint16_t>(bits.size(), to_bf16(static_cast<float>(value.name[0])).bits));
  }
}

TEST_CASE("every base weight of a LoRA job on files of its dtype stays in the files") {
  const ModelConfig config = read_model_config(kGolden / "qwen3_tied");
  const SafetensorsFolder folder = open_model_weights(kGolden / "qwen3_tied", config);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph graph;
    Builder b(graph);
    const Decoder decoder = build_decoder(b, config, {.dtype = dtype, .tokens = 8});
    const std::vector<bool> found = find_stored_weights(graph, folder).in_files(graph.values.size());
    const bool is_stored = folder.find(kEmbedding)->dtype() == dtype;
    for (const ValueId id : decoder.weights) CHECK(found[static_cast<size_t>(id)] == is_stored);
    CHECK(!found[static_cast<size_t>(decoder.inv_freq)]);
  }
}

TEST_CASE("a head beside tied embeddings must equal them") {
  ModelConfig config = read_model_config(kGolden / "llama2");
  config.tie_word_embeddings = true;
  Graph graph;
  graph.values.push_back(
      {.name = std::string(kEmbedding), .type = {DType::kF32, {96, 32}}, .kind = ValueKind::kFrozenWeight});
  PiecewiseStore store(graph, 1000);
  const auto load = [&](const SafetensorsFolder& folder) { load_base_weights(graph, config, folder, store); };
  const TemporaryFolder equal;
  write(equal.path() / "model.safetensors", llama2_tensors());
  CHECK(error_of([&] { load(open_model_weights(equal.path(), config)); }).empty());
  CHECK(error_of([&] {
          load(open_model_weights(kGolden / "llama2", config));
        }).find("set tie_word_embeddings to false") != std::string::npos);
}

TEST_CASE("weight decay spares norms and biases") {
  CHECK(has_weight_decay("model.embed_tokens.weight"));
  CHECK(has_weight_decay("model.layers.0.self_attn.q_proj.weight"));
  CHECK(has_weight_decay(lora_name("model.layers.0.mlp.up_proj", 'A')));
  CHECK(!has_weight_decay("model.layers.0.self_attn.q_proj.bias"));
  CHECK(!has_weight_decay("model.layers.0.self_attn.k_norm.weight"));
  CHECK(!has_weight_decay("model.layers.0.post_attention_layernorm.weight"));
  CHECK(!has_weight_decay("model.norm.weight"));
}
