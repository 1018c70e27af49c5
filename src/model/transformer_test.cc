#include "model/transformer.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "graph/verify.h"
#include "model/adapter.h"
#include "model/modules.h"

using namespace spillway;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models";
constexpr const char* kModels[] = {"llama2", "llama32",    "llama_linear", "llama_bias", "mistral",
                                   "qwen2",  "qwen2_tied", "qwen3",        "qwen3_tied"};

int64_t count_ops(const Graph& graph, std::string_view name) {
  int64_t count = 0;
  for (const Operation& op : graph.ops) count += op.def->name == name;
  return count;
}

int64_t count_biases(const Graph& graph) {
  int64_t count = 0;
  for (const Operation& op : graph.ops) {
    for (const ValueId id : op.inputs) {
      count += op.def->name == "matmul" && id != kNone && graph.value(id).name.ends_with(".bias");
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a decoder's graph is well formed and has exactly the model's weights") {
  for (const char* model : kModels) {
    CAPTURE(model);
    const ModelConfig config = read_model_config(kGolden / model);
    Graph graph;
    Builder builder(graph);
    const Decoder decoder = build_decoder(builder, config, {.tokens = 16, .max_sequences = 3, .train_base = true});
    builder.result(decoder.hidden);
    CHECK(verify(graph).empty());
    CHECK(graph.tokens == 16);
    CHECK(graph.value(decoder.hidden).type == ValueType{DType::kF32, {16, config.hidden_size}, true});
    CHECK(static_cast<int64_t>(graph.blocks.size()) == config.num_hidden_layers);
    CHECK((decoder.head == graph.find(kEmbedding)) == config.tie_word_embeddings);

    std::map<std::string, Shape> expected;
    for (const WeightSpec& weight : model_weights(config)) expected[weight.name] = weight.shape;
    CHECK(decoder.trainable == decoder.weights);
    REQUIRE(decoder.weights.size() == expected.size());
    for (const ValueId id : decoder.weights) {
      const Value& weight = graph.value(id);
      CAPTURE(weight.name);
      REQUIRE(expected.count(weight.name) == 1);
      CHECK(weight.type.shape == expected[weight.name]);
      CHECK(weight.kind == ValueKind::kTrainableWeight);
      const bool in_layer = weight.name.starts_with("model.layers.");
      CHECK((weight.block == kNone) == !in_layer);
      if (in_layer) CHECK(weight.name.starts_with(layer_prefix(weight.block)));
    }
  }
}

TEST_CASE("adapters add two small products to each adapted layer and freeze the base") {
  const ModelConfig config = read_model_config(kGolden / "llama32");
  const LoraOptions lora{.r = 4, .alpha = 8, .dropout = 0.1, .target_modules = {"q_proj", "down_proj"}};
  Graph plain, adapted;
  Builder plain_builder(plain), builder(adapted);
  (void)build_decoder(plain_builder, config, {.tokens = 16});
  const Decoder decoder = build_decoder(builder, config, {.dtype = DType::kBF16, .tokens = 16, .lora = lora});
  CHECK(verify(adapted).empty());
  CHECK(count_ops(adapted, "matmul") - count_ops(plain, "matmul") == 2 * 4);
  CHECK(count_ops(adapted, "dropout") == 4);
  CHECK(decoder.inputs.dropout_seed != kNone);
  const auto specs = lora_weights(lora_targets(config, lora, "lora_target_modules"), lora);
  REQUIRE(decoder.trainable.size() == specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    CHECK(adapted.value(decoder.trainable[i]).name == specs[i].name);
    CHECK(adapted.value(decoder.trainable[i]).type == ValueType{DType::kBF16, specs[i].shape});
  }
  for (const ValueId id : decoder.weights) CHECK(adapted.value(id).kind == ValueKind::kFrozenWeight);
}

TEST_CASE("windows, head norms and biases follow the config") {
  const auto build = [](const char* model) {
    Graph graph;
    Builder builder(graph);
    (void)build_decoder(builder, read_model_config(kGolden / model), {.tokens = 16});
    return graph;
  };
  std::vector<int64_t> windows;
  for (const Operation& op : build("qwen2_tied").ops) {
    if (op.def->name == "attention") windows.push_back(op.attributes.integer("sliding_window"));
  }
  CHECK(windows == std::vector<int64_t>{0, 5});
  CHECK(count_ops(build("llama2"), "rms_norm") == 2 * 2 + 1);
  CHECK(count_ops(build("qwen3"), "rms_norm") == 2 * 4 + 1);
  CHECK(count_biases(build("qwen2")) == 2 * 3);
  CHECK(count_biases(build("llama_bias")) == 2 * 7);
  CHECK(count_ops(build("llama_bias"), "matmul") == count_ops(build("llama2"), "matmul"));
}

TEST_CASE("the decoder of generation keeps keys and values of every layer") {
  const ModelConfig config = read_model_config(kGolden / "llama32");
  Graph graph;
  Builder builder(graph);
  const CachedDecoder decoder = build_cached_decoder(builder, config, {.tokens = 8}, 64, CacheUse::kDecode);
  CHECK(verify(graph).empty());
  CHECK(graph.value(decoder.logits).type == ValueType{DType::kF32, {8, 96}, true});
  for (const char* name : {"cache.layers.0.key", "cache.layers.1.value"}) {
    const ValueId cache = graph.find(name);
    REQUIRE(cache != kNone);
    CHECK(graph.value(cache).kind == ValueKind::kCache);
    CHECK(graph.value(cache).type == ValueType{DType::kF32, {64, 16}});
  }
}

TEST_CASE("the decoder of prompts ends with the last layer's keys and values") {
  const ModelConfig config = read_model_config(kGolden / "llama32");
  Graph graph;
  Builder builder(graph);
  (void)build_cached_decoder(builder, config, {.tokens = 8}, 64, CacheUse::kPrompt);
  CHECK(verify(graph).empty());
  CHECK(graph.results.empty());
  CHECK(graph.ops.back().def->name == "cache_append");
  CHECK(graph.find(kHead) == kNone);
}
