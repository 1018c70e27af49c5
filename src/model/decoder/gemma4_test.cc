// Reading Gemma 4's config.json.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "graph/verify.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "model/decoder/gguf.h"
#include "model/decoder/parts.h"
#include "model/weights.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

// Keys of a small model without what this program does not compute.
json small_gemma4(const json& changes = json::object()) {
  json keys = {{"model_type", "gemma4_text"}, {"hidden_act", nullptr},    {"head_dim", 16},
               {"num_hidden_layers", 7},      {"num_key_value_heads", 2}, {"hidden_size_per_layer_input", 0},
               {"rope_theta", nullptr}};
  keys.update(changes);
  return keys;
}

DecoderConfig gemma4(const json& changes = json::object()) {
  return parse_decoder_config(config_text(small_gemma4(changes), "Gemma4ForCausalLM"), "config.json");
}

std::string gemma4_error(const json& changes) { return config_error(small_gemma4(changes), "Gemma4ForCausalLM"); }

// Returns the layer whose keys and values each layer takes.
std::vector<std::optional<int64_t>> sources_of(const DecoderConfig& config) {
  std::vector<std::optional<int64_t>> sources;
  for (const DecoderLayer& layer : config.layers) sources.push_back(layer.attention.keys_of);
  return sources;
}

const std::filesystem::path kSmallGemma4 = kGoldenModels / "gemma4_e2b";

}  // namespace

TEST_CASE("Gemma 4's layers without a window have heads of their own, whose keys are their values") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "gemma4");
  CHECK(config.architecture == &architectures::kGemma4);
  CHECK(config.embedding_scale == std::sqrt(32.0));
  CHECK(config.logit_soft_cap == 8);
  const Attention &full = config.layers[0].attention, &windowed = config.layers[1].attention;
  CHECK(full.head_dim == 16);
  CHECK(full.kv_heads == 1);
  CHECK(full.values_are_keys);
  CHECK(full.scale == 1);
  CHECK(windowed.head_dim == 12);
  CHECK(windowed.kv_heads == 2);
  CHECK(windowed.window == 6);
  CHECK(!windowed.values_are_keys);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.self_attn.v_proj.weight") == nullptr);
  CHECK(table.find("model.layers.1.self_attn.v_proj.weight")->shape == Shape{24, 32});
  CHECK(table.find("model.layers.0.self_attn.k_norm.weight")->shape == Shape{16});
  const Parameter& scalar = *table.find("model.layers.2.layer_scalar");
  CHECK(scalar.role == ParameterRole::kBuffer);
  CHECK(scalar.is_of_model());
}

TEST_CASE("what a config of Gemma 4 leaves out gets the defaults of transformers") {
  json minimal = json::parse(config_text(small_gemma4(), "Gemma4ForCausalLM"));
  for (const char* key : {"head_dim", "max_position_embeddings"}) minimal.erase(key);
  const DecoderConfig config = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(config.max_position_embeddings == 131072);
  CHECK(config.tie_word_embeddings);
  for (size_t layer = 0; layer < 7; ++layer) {
    CAPTURE(layer);
    const Attention& attention = config.layers[layer].attention;
    const bool sees_all = layer >= 5;  // the sixth by the pattern, the last in any case
    CHECK(attention.window == (sees_all ? 0 : 512));
    CHECK(attention.head_dim == (sees_all ? 512 : 256));
    CHECK(attention.rope == (sees_all ? 0 : 1));
  }
  REQUIRE(config.ropes.size() == 2);
  CHECK(config.ropes[0].type == RopeType::kProportional);
  CHECK(config.ropes[0].partial_rotary_factor == 0.25);
  CHECK(config.ropes[0].theta == 1e6);
  CHECK(config.ropes[1].type == RopeType::kDefault);
  CHECK(config.ropes[1].theta == 1e4);
  const DecoderConfig unified = read_decoder_config(kGoldenModels / "gemma4_unified");
  CHECK(unified.architecture == &architectures::kGemma4Unified);
  CHECK(unified.layers[1].attention.head_dim == 16);
  CHECK(!unified.layers[1].attention.values_are_keys);
}

TEST_CASE("per_layer_config counts more than the keys that it has replaced") {
  const json own = {{"5", {{"head_dim", 32}, {"num_key_value_heads", 1}}}, {"6", {{"head_dim", 32}}}};
  const DecoderConfig config = gemma4({{"per_layer_config", own}, {"global_head_dim", 64}});
  CHECK(config.layers[5].attention.head_dim == 32);
  CHECK(config.layers[5].attention.kv_heads == 1);
  CHECK(config.layers[6].attention.kv_heads == 2);
  CHECK(config.layers[0].attention.head_dim == 16);
}

TEST_CASE("Gemma 4 that computes something else is refused by its key") {
  const auto names = [](const json& changes, std::string_view key) {
    CAPTURE(key);
    CHECK(gemma4_error(changes).find(key) != std::string::npos);
  };
  names({{"use_bidirectional_attention", "all"}}, "use_bidirectional_attention");
  CHECK(gemma4_error({{"use_bidirectional_attention", "vision"}}).empty());
  names({{"enable_moe_block", true}, {"num_experts", 8}, {"moe_intermediate_size", 12}}, "top_k_experts");
  names({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}, "rope_scaling");
  names({{"per_layer_config", {{"7", {{"head_dim", 32}}}}}}, "per_layer_config");
  names({{"per_layer_config", {{"5", {{"intermediate_size", 32}}}}}}, "intermediate_size");
  names({{"per_layer_config", {{"5", {{"num_key_value_heads", 3}}}}}}, "num_key_value_heads");
  names({{"per_layer_config", {{"5", {{"head_dim", 32}}}}}}, "heads of one size");
}

TEST_CASE("the last layers of a small Gemma 4 take keys and values of the last layer of their kind before them") {
  const DecoderConfig config = read_decoder_config(kSmallGemma4);
  CHECK(sources_of(config) == std::vector<std::optional<int64_t>>{{}, {}, {}, 2, 1, 1});
  for (size_t layer = 0; layer < 6; ++layer) {
    CAPTURE(layer);
    CHECK(config.layers[layer].feed_forward.inner == (layer < 3 ? 24 : 48));
    CHECK(config.layers[layer].input_width == 8);
    CHECK(config.layers[layer].states().size() == (layer < 3 ? 2 : 0));
  }
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.2.self_attn.k_proj.weight") != nullptr);
  for (const char* unwanted : {"k_proj", "v_proj", "k_norm"})
    CHECK(table.find(fmt::format("model.layers.3.self_attn.{}.weight", unwanted)) == nullptr);
  CHECK(table.find("model.layers.3.self_attn.q_norm.weight") != nullptr);
  CHECK(table.find("model.layers.5.mlp.down_proj.weight")->shape == Shape{32, 48});
  const Parameter& rows = *table.find(kLayerEmbedding);
  CHECK(rows.shape == Shape{96, 6 * 8});
  CHECK(rows.is_table);
  CHECK(!table.find(kEmbedding)->is_table);  // it is the head, too
}

TEST_CASE("a table of inputs by layer grows with the vocabulary, and config.json says so") {
  const ModelPtr grown = read_model(kSmallGemma4)->text()->with_vocab_size(100);
  const ParameterTable table = parameters_of(*grown);
  CHECK(table.find(kLayerEmbedding)->shape[0] == 100);
  CHECK(table.find(kLayerEmbedding)->source.shape[0] == 96);
  const json config = json::parse(grown->config_json(kSmallGemma4));
  CHECK(config["vocab_size"] == 100);
  CHECK(config["vocab_size_per_layer_input"] == 100);
}

TEST_CASE("what llama.cpp's families here do not have is refused by its key when GGUF is written") {
  DecoderConfig config = read_decoder_config(kGoldenModels / "llama2");
  config.layers[1].attention.keys_of = 0;
  CHECK_THROWS_WITH(check_expressible(config, "model"), doctest::Contains("num_kv_shared_layers"));
  config.layers[1].attention.keys_of.reset();
  config.layers[0].input_width = 8;
  CHECK_THROWS_WITH(check_expressible(config, "model"), doctest::Contains("hidden_size_per_layer_input"));
  // llama.cpp takes the keys of the last layer that has its own for one without a window.
  CHECK_THROWS_WITH(
      check_expressible(read_decoder_config(kSmallGemma4), "model"),
      doctest::Contains("expected layer 3 to take keys of layer 1, which is what llama.cpp computes, got layer 2"));
}

TEST_CASE("keys that GGUF files of others have for layers without any are known, and not read") {
  const DecoderConfig config = read_decoder_config(kSmallGemma4);
  const std::vector<std::string> unread = describe_gguf(config).unread;
  CHECK(unread.size() == 9);
  for (const char* name : {"blk.3.attn_k.weight", "blk.4.attn_v.weight", "blk.5.attn_k_norm.weight"}) {
    CAPTURE(name);
    CHECK(std::ranges::count(unread, name) == 1);
  }
}

TEST_CASE("modules to save that are no head and no embedding of it untie nothing") {
  const ModelPtr model = read_model(kSmallGemma4);
  CHECK(untie_head(model, {.modules_to_save = {"embed_tokens_per_layer"}}) == model);
  CHECK(untie_head(model, {.modules_to_save = {"embed_tokens"}}) != model);
}

TEST_CASE("generation keeps no states for layers that share keys, and prompts end with the last that has some") {
  const ModelPtr model = read_model(kSmallGemma4);
  Graph decode, prompt;
  Builder of_decode(decode), of_prompt(prompt);
  (void)model->text()->build_cached(of_decode, {.tokens = 8}, 64, CacheUse::kDecode);
  CHECK(verify(decode).empty());
  CHECK(decode.find("cache.layers.2.value") != kNone);
  CHECK(decode.find("cache.layers.3.key") == kNone);
  (void)model->text()->build_cached(of_prompt, {.tokens = 8}, 64, CacheUse::kPrompt);
  CHECK(verify(prompt).empty());
  CHECK(prompt.find("model.layers.2.self_attn.k_proj.weight") != kNone);
  CHECK(prompt.find("model.layers.2.self_attn.o_proj.weight") == kNone);
  CHECK(prompt.find("model.layers.3.self_attn.q_proj.weight") == kNone);
}

namespace {

// Writes the small Gemma 4 with a change of its tensors.
template <typename Change>
std::filesystem::path changed_folder(const std::filesystem::path& to, const Change& change) {
  std::filesystem::create_directories(to);
  std::filesystem::copy(kSmallGemma4 / "config.json", to);
  const SafetensorsFolder folder(kSmallGemma4);
  std::vector<TensorSpec> specs;
  for (const auto& [name, entry] : folder.tensors()) specs.push_back({name, DType::kBF16, entry.tensor->shape});
  change(specs);
  SafetensorsFolderWriter writer(to, specs);
  for (const TensorSpec& spec : specs) {
    const std::vector<float> zeros(static_cast<size_t>(Shape(spec.shape).elems()));
    writer.append(spec.name, zeros.data(), DType::kF32, std::ssize(zeros));
  }
  writer.commit();
  return to;
}

std::string loading_error(const std::filesystem::path& folder) {
  try {
    (void)open_model_weights(folder, parameters_of(*read_model(folder)));
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

// As the files on the hub have them, and as transformers drops them.
TEST_CASE(
    "keys that files hold for layers without any are not read; a table that is not there, or is cut, is refused") {
  const TemporaryFolder folder;
  const auto error = [&](const char* name, const auto& change) {
    return loading_error(changed_folder(folder.path() / name, change));
  };
  using Specs = std::vector<TensorSpec>;
  CHECK(error("more", [](Specs& specs) {
          specs.push_back({"model.layers.3.self_attn.k_proj.weight", DType::kBF16, {24, 32}});
          specs.push_back({"model.layers.4.self_attn.k_norm.weight", DType::kBF16, {16}});
        }).empty());
  CHECK(error("other", [](Specs& specs) {
          specs.push_back({"model.layers.3.self_attn.x_proj.weight", DType::kBF16, {24, 32}});
        }).find("x_proj") != std::string::npos);
  CHECK(error("missing", [](Specs& specs) {
          std::erase_if(specs, [](const TensorSpec& spec) { return spec.name == kLayerEmbedding; });
        }).find(kLayerEmbedding) != std::string::npos);
  const std::string cut = error("cut", [](Specs& specs) {
    for (TensorSpec& spec : specs)
      if (spec.name == kLayerEmbedding) spec.shape = {96, 5 * 8};
  });
  CHECK(cut.find(kLayerEmbedding) != std::string::npos);
  CHECK(cut.find("[96, 48]") != std::string::npos);
}

TEST_CASE("shared keys without a layer to take them from, and tables of other sizes, are refused") {
  const json shared = {{"hidden_size_per_layer_input", 0}, {"num_kv_shared_layers", 2}};
  const auto refuses = [&](const json& changes, std::string_view words) {
    CAPTURE(words);
    json all = shared;
    all.update(changes);
    const std::string error = gemma4_error(all);
    CAPTURE(error);
    CHECK(error.find(words) != std::string::npos);
  };
  // Layers 5 and 6 see everything.
  refuses({{"num_kv_shared_layers", 7}}, "less than num_hidden_layers = 7, got 7");
  refuses({{"num_kv_shared_layers", -1}}, "num_kv_shared_layers");
  refuses({{"num_kv_shared_layers", 2}}, "expected a layer of type full_attention among the first 5");
  refuses({{"num_kv_shared_layers", 1}, {"per_layer_config", {{"6", {{"head_dim", 32}}}}}},
          "heads of 16 in layer 6, which takes the keys and values of layer 5");
  const json inputs = {{"hidden_size_per_layer_input", 8}, {"num_kv_shared_layers", 0}};
  json other = inputs;
  other["vocab_size_per_layer_input"] = 90;
  refuses(inputs, "expected vocab_size_per_layer_input 96, as vocab_size, got 262144");
  refuses(other, "got 90");
  json negative = inputs;
  negative["hidden_size_per_layer_input"] = -8;
  refuses(negative, "hidden_size_per_layer_input");
}
