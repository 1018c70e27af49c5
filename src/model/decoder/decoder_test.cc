#include "model/decoder/decoder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "graph/verify.h"
#include "io/safetensors.h"
#include "model/adapter.h"
#include "model/adapter_targets.h"
#include "model/decoder/parts.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

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
  for (const char* model : kTinyModels) {
    CAPTURE(model);
    const DecoderConfig config = read_decoder_config(kGoldenModels / model);
    Graph graph;
    Builder builder(graph);
    const ModelGraph decoder =
        make_decoder(config)->build(builder, {.tokens = 16, .max_sequences = 3, .train_base = true});
    builder.result(decoder.hidden);
    CHECK(verify(graph).empty());
    CHECK(graph.tokens() == 16);
    CHECK(graph.value(decoder.hidden).type == ValueType{DType::kF32, {16, config.hidden_size}, kTokenAxis});
    CHECK(graph.blocks.size() == config.layers.size());
    CHECK((decoder.head == graph.find(kEmbedding)) == config.tie_word_embeddings);

    const SafetensorsFolder files(kGoldenModels / model);
    std::set<std::string> of_model;
    for (const Parameter& p : decoder.parameters) {
      CAPTURE(p.name);
      const Value& weight = graph.value(p.value());
      CHECK(weight.name == p.name);
      CHECK(weight.type == ValueType{p.dtype, p.shape});
      CHECK(p.trained == (p.role != ParameterRole::kConstant && p.role != ParameterRole::kBuffer));
      CHECK((weight.kind == ValueKind::kTrainableWeight) == p.trained);
      const bool in_layer = weight.name.starts_with("model.layers.");
      CHECK((weight.block == kNone) == !in_layer);
      if (in_layer) CHECK(weight.name.starts_with(fmt::format("model.layers.{}.", weight.block)));
      if (!p.is_of_model()) continue;
      of_model.insert(p.source.name);
      REQUIRE(files.find(p.source.name));
      CHECK(files.find(p.source.name)->shape == p.written_shape().dims());
    }
    CHECK(of_model.size() == files.tensors().size());
  }
}

TEST_CASE("noise is added to embeddings once, and in no pass without dropout") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  const ModelOptions options{.tokens = 16, .train_base = true, .neftune_noise_alpha = 5};
  Graph noisy, plain;
  Builder noisy_builder(noisy), plain_builder(plain);
  CHECK(model->build(noisy_builder, options).dropout_seed != kNone);
  CHECK(model->build(plain_builder, options.without_dropout()).dropout_seed == kNone);
  CHECK(verify(noisy).empty());
  CHECK(count_ops(noisy, "embedding_noise") == 1);
  CHECK(count_ops(plain, "embedding_noise") == 0);
}

TEST_CASE("adapters add a small product to each adapted layer, and another to its sums, and freeze the base") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  const LoraOptions lora{.r = 4, .alpha = 8, .dropout = 0.1, .target_modules = {"q_proj", "down_proj"}};
  Graph plain, adapted;
  Builder plain_builder(plain), builder(adapted);
  (void)model->build(plain_builder, {.tokens = 16});
  const ModelGraph decoder = model->build(builder, {.dtype = DType::kBF16, .tokens = 16, .lora = lora});
  CHECK(verify(adapted).empty());
  CHECK(count_ops(adapted, "matmul") - count_ops(plain, "matmul") == 4);
  CHECK(std::count_if(adapted.ops.begin(), adapted.ops.end(), [](const Operation& op) {
          return op.def->tail_input >= 0 && nth(op.inputs, op.def->tail_input) != kNone;
        }) == 4);
  CHECK(count_ops(adapted, "dropout") == 4);
  CHECK(decoder.dropout_seed != kNone);
  const std::vector<std::string> targets = lora_targets(decoder.parameters, lora, "lora_target_modules");
  CHECK(targets.size() == 4);
  for (const std::string& module : targets) {
    const Parameter* w = decoder.parameters.find(module + ".weight");
    const Parameter *a = decoder.parameters.find(lora_name(module, 'A')),
                    *b = decoder.parameters.find(lora_name(module, 'B'));
    REQUIRE((w && a && b));
    CHECK(adapted.value(a->value()).type == ValueType{DType::kBF16, {4, w->shape[1]}});
    CHECK(adapted.value(b->value()).type == ValueType{DType::kBF16, {w->shape[0], 4}});
    CHECK(adapted.value(b->value()).kind == ValueKind::kTrainableWeight);
  }
  for (const Parameter& p : decoder.parameters) {
    CHECK(p.trained == p.is_factor());
    CHECK((adapted.value(p.value()).kind == ValueKind::kFrozenWeight) == !p.is_factor());
  }
}

TEST_CASE("parameters without a graph are those of the graph") {
  const ModelPtr model = read_model(kGoldenModels / "qwen3");
  const ModelOptions options{.dtype = DType::kBF16, .tokens = 16, .lora = LoraOptions{.r = 2, .alpha = 2}};
  Graph graph;
  Builder builder(graph);
  const ParameterTable built = model->build(builder, options).parameters;
  const ParameterTable table = parameters_of(*model, options);
  REQUIRE(table.size() == built.size());
  for (size_t i = 0; i < table.size(); ++i) {
    CHECK(table[i].name == built[i].name);
    CHECK(table[i].shape == built[i].shape);
    CHECK(table[i].trained == built[i].trained);
    CHECK(table[i].values.empty());
  }
}

TEST_CASE("a head that starts as the embedding, and rows of added tokens, say where they come from") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  const ModelPtr grown = model->text()->with_vocab_size(model->text()->vocab_size + 4);
  const ParameterTable table = parameters_of(*untie_head(grown, {.modules_to_save = {"lm_head"}}));
  const Parameter* head = table.find(kHead);
  REQUIRE(head);
  CHECK(head->role == ParameterRole::kHead);
  CHECK(head->source.name == kEmbedding);
  CHECK(head->shape[0] == head->source.shape[0] + 4);
}

TEST_CASE("weight decay spares norms and biases") {
  const LoraOptions lora{.r = 2, .alpha = 2};
  for (const char* model : {"llama_bias", "qwen3", "gemma3"}) {
    for (const Parameter& p : parameters_of(*read_model(kGoldenModels / model), {.lora = lora})) {
      CAPTURE(p.name);
      CHECK(p.decays() == !(p.name.ends_with("bias") || p.name.ends_with("norm.weight")));
    }
  }
}

TEST_CASE("windows, head norms and biases follow the config") {
  std::vector<int64_t> windows;
  for (const Operation& op : graph_of_tiny("qwen2_tied").ops) {
    if (op.def->name == "attention") windows.push_back(op.attributes.integer("sliding_window"));
  }
  CHECK(windows == std::vector<int64_t>{0, 5});
  CHECK(count_ops(graph_of_tiny("llama2"), "rms_norm") == 2 * 2 + 1);
  CHECK(count_ops(graph_of_tiny("qwen3"), "rms_norm") == 2 * 4 + 1);
  CHECK(count_ops(graph_of_tiny("gemma2"), "rms_norm") == 2 * 4 + 1);
  CHECK(count_ops(graph_of_tiny("gemma3"), "rms_norm") == 3 * 6 + 1);
  CHECK(count_biases(graph_of_tiny("qwen2")) == 2 * 3);
  CHECK(count_biases(graph_of_tiny("llama_bias")) == 2 * 7);
  CHECK(count_ops(graph_of_tiny("llama_bias"), "matmul") == count_ops(graph_of_tiny("llama2"), "matmul"));
}

TEST_CASE("queries, keys and values that the files fuse are one layer, which an adapter has as a whole") {
  const LoraOptions lora{.r = 2, .alpha = 2, .target_modules = {"qkv_proj", "gate_up_proj"}};
  const ParameterTable table = parameters_of(*read_model(kGoldenModels / "phi3"), {.lora = lora});
  CHECK(table.find("model.layers.0.self_attn.qkv_proj.weight")->shape == Shape{(4 + 2 * 2) * 8, 32});
  CHECK(table.find(lora_name("model.layers.1.self_attn.qkv_proj", 'B'))->shape == Shape{64, 2});
  CHECK(table.find(lora_name("model.layers.1.mlp.gate_up_proj", 'B'))->shape == Shape{2 * 48, 2});
}

TEST_CASE("the decoder of generation keeps keys and values of every layer") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  Graph graph;
  Builder builder(graph);
  const CachedModelGraph decoder = model->text()->build_cached(builder, {.tokens = 8}, 64, CacheUse::kDecode);
  CHECK(verify(graph).empty());
  CHECK(graph.value(decoder.logits).type == ValueType{DType::kF32, {8, 96}, kTokenAxis});
  for (const char* name : {"cache.layers.0.key", "cache.layers.1.value"}) {
    const ValueId cache = graph.find(name);
    REQUIRE(cache != kNone);
    CHECK(graph.value(cache).kind == ValueKind::kCache);
    CHECK(graph.value(cache).type == ValueType{DType::kF32, {64, 16}});
  }
}

TEST_CASE("the decoder of prompts ends with the last layer's keys and values") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  Graph graph;
  Builder builder(graph);
  (void)model->text()->build_cached(builder, {.tokens = 8}, 64, CacheUse::kPrompt);
  CHECK(verify(graph).empty());
  CHECK(graph.results.empty());
  CHECK(graph.ops.back().def->name == "cache_append");
  CHECK(graph.find(kHead) == kNone);
}
