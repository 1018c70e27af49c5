#include "model/decoder/config.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "model/decoder/architecture.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("model folders in the styles of transformers 4 and 5 are read") {
  SUBCASE("Llama 2, style 4") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "llama2");
    CHECK(config.architecture == &architectures::kLlama);
    CHECK(config.vocab_size == 96);
    CHECK(config.hidden_size == 32);
    CHECK(config.layers[0].feed_forward.inner == 48);
    CHECK(config.layers.size() == 2);
    CHECK(config.layers[0].attention.kv_heads == 4);
    CHECK(config.layers[0].attention.head_dim == 8);
    CHECK(config.norm_eps == 1e-5);
    CHECK(config.ropes[0].type == RopeType::kDefault);
    CHECK(config.dtype == DType::kF32);
    CHECK(config.bos_token_id == 1);
    CHECK(!config.pad_token_id);
  }
  SUBCASE("Llama 3.2, style 5") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "llama32");
    CHECK(config.tie_word_embeddings);
    CHECK(config.ropes[0].type == RopeType::kLlama3);
    CHECK(config.ropes[0].factor == 8.0);
    CHECK(config.ropes[0].original_max_position_embeddings == 32);
    CHECK(windows_of(config) == std::vector<int64_t>{0, 0});
  }
  SUBCASE("linear rope, style 4") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "llama_linear");
    CHECK(config.ropes[0].type == RopeType::kLinear);
    CHECK(config.ropes[0].theta == 5000.0);
    CHECK(config.ropes[0].factor == 2.5);
  }
  SUBCASE("biases and an explicit head size") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "llama_bias");
    CHECK(config.layers[0].attention.head_dim == 12);
    CHECK(config.layers[0].attention.qkv_bias);
    CHECK(config.layers[0].attention.output_bias);
    CHECK(config.layers[0].feed_forward.bias);
  }
  SUBCASE("Mistral") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "mistral");
    CHECK(config.architecture == &architectures::kMistral);
    CHECK(windows_of(config) == std::vector<int64_t>{6, 6});
    CHECK(config.dtype == DType::kBF16);
  }
  SUBCASE("Qwen2 with a window from the second layer on") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "qwen2_tied");
    CHECK(config.layers[0].attention.qkv_bias);
    CHECK(!config.layers[0].attention.output_bias);
    CHECK(windows_of(config) == std::vector<int64_t>{0, 5});
  }
  SUBCASE("Gemma 2, style 4") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "gemma2");
    CHECK(config.architecture == &architectures::kGemma2);
    CHECK(config.layers[0].attention.soft_cap == 2);
    CHECK(config.logit_soft_cap == 8);
    CHECK(config.layers[0].attention.scale == doctest::Approx(1 / std::sqrt(24)));
    CHECK(windows_of(config) == std::vector<int64_t>{6, 0});
    CHECK(config.ropes.size() == 1);
    CHECK(!config.tie_word_embeddings);
  }
  SUBCASE("Gemma 3 with two ropes, style 5") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "gemma3");
    CHECK(config.architecture == &architectures::kGemma3);
    CHECK(config.layers[0].attention.soft_cap == 0);
    CHECK(config.logit_soft_cap == 0);
    CHECK(windows_of(config) == std::vector<int64_t>{5, 0, 5});
    CHECK(config.ropes[0].type == RopeType::kLinear);
    CHECK(config.ropes[0].theta == 10000);
    REQUIRE(config.ropes.size() == 2);
    CHECK(config.ropes[1].type == RopeType::kDefault);
    CHECK(config.ropes[1].theta == 100);
    CHECK(config.tie_word_embeddings);
  }
  SUBCASE("Phi-3 with a window in every layer") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "phi3");
    CHECK(config.architecture == &architectures::kPhi3);
    CHECK(windows_of(config) == std::vector<int64_t>{6, 6});
    CHECK(config.layers[0].attention.kv_heads == 2);
  }
  SUBCASE("Qwen3") {
    const DecoderConfig config = read_decoder_config(kGoldenModels / "qwen3_tied");
    CHECK(config.layers[0].attention.head_dim == 16);
    CHECK(config.architecture == &architectures::kQwen3);
    CHECK(config.dtype == DType::kF16);
    CHECK(!config.layers[0].attention.qkv_bias);
  }
}

namespace {

void check_frequencies(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(std::bit_cast<int32_t>(got[i]) - std::bit_cast<int32_t>(expected[i])) <= 4);
}

}  // namespace

TEST_CASE("rope frequencies equal those of transformers to the last bits") {
  for (const json& item : json::parse(read_file(kGoldenModels / "rope.json", kMiB))) {
    CAPTURE(item["name"]);
    json changes = item["config"];
    changes["max_position_embeddings"] = 131072;
    const DecoderConfig config = parse(changes);
    check_frequencies(rope_inverse_frequencies(config.ropes[0], config.layers[0].attention.head_dim), item["inv_freq"]);
    if (item.contains("long_inv_freq"))
      check_frequencies(rope_inverse_frequencies(config.ropes[0], config.layers[0].attention.head_dim, true),
                        item["long_inv_freq"]);
    CHECK(config.ropes[0].attention_factor == doctest::Approx(item["attention_factor"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("keys that a config leaves out get the defaults of transformers") {
  json minimal = json::parse(config_text());
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "hidden_act", "max_position_embeddings"})
    minimal.erase(key);
  const DecoderConfig llama = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(llama.layers[0].attention.kv_heads == 4);
  CHECK(llama.norm_eps == 1e-6);
  CHECK(llama.max_position_embeddings == 2048);
  CHECK(llama.ropes[0].theta == 10000.0);
  CHECK(!llama.tie_word_embeddings);

  CHECK(parse({{"num_key_value_heads", nullptr}}, "MistralForCausalLM").layers[0].attention.kv_heads == 4);
  CHECK(windows_of(parse(json::object(), "MistralForCausalLM")) == std::vector<int64_t>{4096, 4096, 4096});
  CHECK(windows_of(parse({{"sliding_window", nullptr}}, "MistralForCausalLM")) == std::vector<int64_t>{0, 0, 0});
  CHECK(parse(json::object(), "Qwen3ForCausalLM").layers[0].attention.head_dim == 128);
  CHECK(windows_of(parse({{"sliding_window", 7}}, "Qwen2ForCausalLM")) == std::vector<int64_t>{0, 0, 0});
}

TEST_CASE("keys that a config of Gemma or Phi-3 leaves out get the defaults of transformers") {
  json minimal = json::parse(config_text({{"model_type", "gemma2"}}, "Gemma2ForCausalLM"));
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "max_position_embeddings"}) minimal.erase(key);
  const DecoderConfig gemma2 = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(gemma2.layers[0].attention.kv_heads == 4);
  CHECK(gemma2.layers[0].attention.head_dim == 256);
  CHECK(gemma2.layers[0].attention.scale == 1.0 / 16);
  CHECK(gemma2.layers[0].attention.soft_cap == 50);
  CHECK(gemma2.logit_soft_cap == 30);
  CHECK(gemma2.max_position_embeddings == 8192);
  CHECK(gemma2.tie_word_embeddings);
  CHECK(windows_of(gemma2) == std::vector<int64_t>{4096, 0, 4096});
  minimal.update({{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  const DecoderConfig bare = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(bare.layers[0].attention.soft_cap == 0);
  CHECK(bare.logit_soft_cap == 0);

  minimal.update({{"architectures", {"Gemma3ForCausalLM"}}, {"model_type", "gemma3_text"}, {"num_hidden_layers", 7}});
  const DecoderConfig gemma3 = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(gemma3.max_position_embeddings == 131072);
  CHECK(windows_of(gemma3) == std::vector<int64_t>{4096, 4096, 4096, 4096, 4096, 0, 4096});
  CHECK(gemma3.ropes[0].theta == 1e6);
  REQUIRE(gemma3.ropes.size() == 2);
  CHECK(gemma3.ropes[1].theta == 1e4);

  minimal.update({{"architectures", {"Phi3ForCausalLM"}}, {"model_type", "phi3"}});
  const DecoderConfig phi3 = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(phi3.norm_eps == 1e-5);
  CHECK(phi3.max_position_embeddings == 4096);
  CHECK(windows_of(phi3) == std::vector<int64_t>(7, 0));
  CHECK(!phi3.tie_word_embeddings);

  minimal.update({{"architectures", {"Glm4ForCausalLM"}}, {"model_type", "glm4"}});
  const DecoderConfig glm4 = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(glm4.layers[0].attention.head_dim == 128);
  CHECK(glm4.ropes[0].partial_rotary_factor == 0.5);
  CHECK(glm4.layers[0].attention.qkv_bias);
  CHECK(!glm4.layers[0].attention.output_bias);

  minimal.update({{"architectures", {"Ministral3ForCausalLM"}},
                  {"model_type", "ministral3"},
                  {"num_attention_heads", 8},
                  {"rope_parameters", {{"llama_4_scaling_beta", 0.1}, {"original_max_position_embeddings", 16384}}}});
  const DecoderConfig ministral3 = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(ministral3.max_position_embeddings == 262144);
  CHECK(windows_of(ministral3) == std::vector<int64_t>(7, 0));
  CHECK(ministral3.ropes[0].llama_4_scaling_beta == 0.1);
}

TEST_CASE("Gemma 3 has the two ropes of transformers 4, of which rope_scaling stretches that of all tokens") {
  const json changes = {{"model_type", "gemma3_text"}, {"rope_theta", 5e5},
                        {"rope_local_base_freq", 2e4}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                        {"sliding_window_pattern", 3}, {"sliding_window", 16}};
  const DecoderConfig config = parse(changes, "Gemma3ForCausalLM");
  CHECK(config.ropes[0].theta == 5e5);
  CHECK(config.ropes[0].factor == 8);
  CHECK(config.ropes[1].theta == 2e4);
  CHECK(config.ropes[1].type == RopeType::kDefault);
  CHECK(windows_of(config) == std::vector<int64_t>{16, 16, 0});
}

TEST_CASE("what would change Gemma or Phi-3 is refused by name") {
  const auto gemma = [](json changes) {
    changes["model_type"] = "gemma3_text";
    return config_error(changes, "Gemma3ForCausalLM");
  };
  CHECK(gemma({{"hidden_activation", "silu"}}).find("expected hidden_activation gelu_pytorch_tanh, got 'silu'") !=
        std::string::npos);
  CHECK(gemma({{"use_bidirectional_attention", true}}).find("use_bidirectional_attention false") != std::string::npos);
  CHECK(gemma({{"sliding_window", nullptr}}).find("expected sliding_window beside a layer") != std::string::npos);
  CHECK(gemma({{"rope_parameters", {{"rope_theta", 1e4}}}}).find("got rope_theta beside them") != std::string::npos);
  CHECK(gemma({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
               {"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}})
            .find("got both") != std::string::npos);
  CHECK(config_error({{"rope_scaling", {{"type", "longrope"}}}}, "Phi3ForCausalLM").find("rope_scaling.short_factor") !=
        std::string::npos);
  CHECK(config_error({{"rope_scaling", {{"type", "su"}, {"short_factor", {1, 1}}, {"long_factor", {1}}}}},
                     "Phi3ForCausalLM")
            .find("expected a factor for each of 4 pairs of a head, got 2") != std::string::npos);
  CHECK(config_error({{"partial_rotary_factor", 0.1}}, "Phi3ForCausalLM").find("to be an even number, got 0") !=
        std::string::npos);
  CHECK(config_error({{"resid_pdrop", 0.1}}, "Phi3ForCausalLM").find("expected resid_pdrop 0") != std::string::npos);
}

TEST_CASE("layer_types say which Qwen layers have a window") {
  const json types = {"sliding_attention", "full_attention", "sliding_attention"};
  const json changes = {{"use_sliding_window", true}, {"sliding_window", 7}, {"layer_types", types}};
  CHECK(windows_of(parse(changes, "Qwen3ForCausalLM")) == std::vector<int64_t>{7, 0, 7});
  CHECK(config_error({{"layer_types", types}}, "Qwen3ForCausalLM").find("expected use_sliding_window") !=
        std::string::npos);
  CHECK(config_error({{"layer_types", {"full_attention"}}}, "Qwen3ForCausalLM").find("got 1;") != std::string::npos);
  CHECK(config_error({{"layer_types", {"full_attention", "full_attention", "chunked_attention"}}}, "Qwen2ForCausalLM")
            .find("got 'chunked_attention'") != std::string::npos);
}

TEST_CASE("a pad_token_id of -1 is none") { CHECK(!parse({{"pad_token_id", -1}}).pad_token_id); }

// Expected values are the padding_idx of nn.Embedding in transformers 5.24's models.
TEST_CASE("the embedding's padding_idx is pad_token_id, or what the model's class has for it") {
  const auto row = [](const json& changes, const char* architecture = "LlamaForCausalLM") {
    return parse(changes, architecture).padding_idx;
  };
  CHECK(row({{"pad_token_id", 5}}) == 5);
  CHECK(row({{"vocab_size", 96}, {"pad_token_id", -1}}) == 95);
  CHECK_FALSE(row({{"pad_token_id", nullptr}}));
  CHECK_FALSE(row({{"vocab_size", 96}, {"pad_token_id", 96}}));
  CHECK_FALSE(row(json::object()));
  const json wide = {{"vocab_size", 200000}};
  json gemma = {{"vocab_size", 200000}, {"hidden_act", "gelu_pytorch_tanh"}};
  CHECK(row(gemma, "GemmaForCausalLM") == 0);
  gemma["pad_token_id"] = nullptr;
  CHECK_FALSE(row(gemma, "GemmaForCausalLM"));
  CHECK(row(wide, "Phi3ForCausalLM") == 32000);
  CHECK(row(wide, "SmolLM3ForCausalLM") == 128004);
  CHECK(row(wide, "Olmo2ForCausalLM") == 1);
  CHECK_FALSE(row(wide, "Qwen3ForCausalLM"));
  // Transformers makes no embedding of that row, and here it means nothing.
  CHECK_FALSE(row({{"vocab_size", 96}}, "Phi3ForCausalLM"));
}

TEST_CASE("a generation_config.json that is a link to nothing is an error") {
  const TemporaryFolder folder;
  write_file(folder.path() / "config.json", config_text());
  CHECK_NOTHROW((void)read_decoder_config(folder.path()));
  std::filesystem::create_symlink("blobs/gone", folder.path() / "generation_config.json");
  CHECK_THROWS_WITH_AS((void)read_decoder_config(folder.path()), doctest::Contains("generation_config.json"),
                       InputError);
}

TEST_CASE("an architecture is found by model_type where architectures is missing") {
  json config = json::parse(config_text({{"model_type", "qwen2"}}));
  config.erase("architectures");
  CHECK(parse_decoder_config(config.dump(), "config.json").architecture == &architectures::kQwen2);
}

TEST_CASE("a config.json without model_type is refused, as by transformers") {
  CHECK(config_error({{"model_type", nullptr}}) ==
        "[config.json] expected model_type llama beside LlamaForCausalLM, got none; correct the one that is wrong");
  json config = json::parse(config_text({{"model_type", ""}}));
  config.erase("architectures");
  CHECK(
      config_error(config.dump()) ==
      "[config.json] expected model_type llama, mistral, qwen2, qwen3, gemma2, gemma3_text, phi3, glm4, "
      "ministral3, granite, smollm3, olmo2, arcee, seed_oss, gemma, olmo3, cohere, cohere2, mixtral, qwen2_moe, "
      "qwen3_moe, olmoe, glm4_moe, gpt_oss, deepseek_v2, deepseek_v3, glm4_moe_lite, gemma4_text, "
      "gemma4_unified_text, granitemoe, granitemoehybrid, minimax_m2, lfm2, lfm2_moe, qwen3_next, qwen3_5_text, "
      "qwen3_5_moe_text, afmoe, apertus, nemotron, hunyuan_v1_dense, mistral4, nemotron_h, falcon_h1, bamba or jamba, "
      "got none; add it");
}

TEST_CASE("what is not supported is refused by name") {
  CHECK(
      config_error(json::object(), "FalconForCausalLM") ==
      "[config.json] expected a model of a kind that is there (docs/models.md), got 'FalconForCausalLM', which is not "
      "yet supported; use another");
  CHECK(config_error(json::object(), "MptForCausalLM") ==
        "[config.json] expected architectures to name LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
        "Qwen3ForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Phi3ForCausalLM, Glm4ForCausalLM, "
        "Ministral3ForCausalLM, GraniteForCausalLM, "
        "SmolLM3ForCausalLM, Olmo2ForCausalLM, ArceeForCausalLM, SeedOssForCausalLM, GemmaForCausalLM, "
        "Olmo3ForCausalLM, CohereForCausalLM, Cohere2ForCausalLM, MixtralForCausalLM, Qwen2MoeForCausalLM, "
        "Qwen3MoeForCausalLM, OlmoeForCausalLM, Glm4MoeForCausalLM, GptOssForCausalLM, DeepseekV2ForCausalLM, "
        "DeepseekV3ForCausalLM, Glm4MoeLiteForCausalLM, Gemma4ForCausalLM, Gemma4UnifiedForCausalLM, "
        "GraniteMoeForCausalLM, GraniteMoeHybridForCausalLM, MiniMaxM2ForCausalLM, Lfm2ForCausalLM, "
        "Lfm2MoeForCausalLM, Qwen3NextForCausalLM, "
        "Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, AfmoeForCausalLM, ApertusForCausalLM, NemotronForCausalLM, "
        "HunYuanDenseV1ForCausalLM, Mistral4ForCausalLM, NemotronHForCausalLM, FalconH1ForCausalLM, "
        "BambaForCausalLM or JambaForCausalLM, got 'MptForCausalLM'; "
        "use a model of one of "
        "these");
  CHECK(config_error(json::object(), "Gemma3ForConditionalGeneration").find("got 'Gemma3ForConditionalGeneration'") !=
        std::string::npos);
  CHECK(config_error({{"rope_scaling", {{"type", "ntk"}, {"factor", 4.0}}}}) ==
        "[config.json: rope_scaling] expected rope_type default, linear, llama3, yarn, longrope or proportional, got "
        "'ntk', "
        "which is not supported; use a model without it");
  CHECK(config_error(json::object(), "Ministral3ForCausalLM").find("expected rope_parameters, got none") !=
        std::string::npos);
  CHECK(config_error({{"rope_parameters", {{"rope_type", "default"}}}}, "Ministral3ForCausalLM")
            .find("llama_4_scaling_beta") != std::string::npos);
  CHECK(config_error({{"rope_parameters", {{"rope_type", "dynamic"}}}}).find("got 'dynamic'") != std::string::npos);
  CHECK(config_error({{"hidden_act", "gelu"}}).find("expected hidden_act silu, got 'gelu'") != std::string::npos);
  CHECK(config_error({{"quantization_config", {{"bits", 4}}}}).find("quantization_config") != std::string::npos);
  CHECK(config_error({{"partial_rotary_factor", 0.5}}).find("got 0.5") != std::string::npos);
  CHECK(config_error({{"attention_dropout", 0.1}}).find("got 0.1") != std::string::npos);
  CHECK(config_error({{"model_type", "qwen2"}}).find("expected model_type llama") != std::string::npos);
  CHECK(config_error({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}, "Qwen3ForCausalLM")
            .find("got one for full_attention") != std::string::npos);
}

TEST_CASE("numbers that cannot be are refused with key and value") {
  CHECK(config_error({{"hidden_size", 0}}) ==
        "[config.json: hidden_size] expected an integer from 1 to 1048576, got 0; correct the file");
  CHECK(config_error({{"hidden_size", -32}}).find("got -32") != std::string::npos);
  std::string large = config_text();
  large.replace(large.find(":48"), 3, ":1e400");
  CHECK(config_error(large) ==
        "[config.json: intermediate_size] expected an integer from 1 to 1048576, got \"1e400\"; correct the file");
  CHECK(config_error({{"hidden_size", 32.0}}).find("got 32.0") != std::string::npos);
  CHECK(config_error({{"vocab_size", uint64_t{1} << 63}}).find("got 9223372036854775808") != std::string::npos);
  CHECK(config_error({{"vocab_size", "96"}}).find("got \"96\"") != std::string::npos);
  CHECK(config_error({{"num_hidden_layers", 100000}}).find("num_hidden_layers") != std::string::npos);
  CHECK(config_error({{"num_attention_heads", 5}}).find("num_key_value_heads, got 5 and 2") != std::string::npos);
  CHECK(config_error({{"num_attention_heads", 6}}).find("num_attention_heads, got 32 and 6") != std::string::npos);
  CHECK(config_error({{"head_dim", 7}}).find("even size") != std::string::npos);
  CHECK(config_error({{"rms_norm_eps", "small"}}).find("rms_norm_eps") != std::string::npos);
  CHECK(config_error({{"tie_word_embeddings", 1}}).find("true or false") != std::string::npos);
  CHECK(config_error({{"sliding_window", 0}}, "MistralForCausalLM").find("got 0") != std::string::npos);
  CHECK(config_error({{"rope_scaling", {{"rope_type", "linear"}}}})
            .find("rope_scaling.factor] expected a number from 1e-06 to 1000000, got nothing") != std::string::npos);
  CHECK(config_error({{"rope_scaling",
                       {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}}})
            .find("high_freq_factor above low_freq_factor") != std::string::npos);
  CHECK(config_error({{"rope_theta", 0}}).find("rope_theta") != std::string::npos);
  json missing = json::parse(config_text());
  missing.erase("intermediate_size");
  CHECK(config_error(missing.dump()).find(": intermediate_size] expected an integer from 1 to 1048576, got nothing") !=
        std::string::npos);
}

TEST_CASE("files that are no JSON objects are refused") {
  CHECK(config_error(std::string("{\"vocab_size\": 9")).find("got text that is not JSON") != std::string::npos);
  CHECK(config_error(std::string("[1]")).find("got array") != std::string::npos);
  CHECK(config_error(std::string()).find("expected a JSON object") != std::string::npos);
  const std::string deep = "{\"a\": " + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  CHECK(config_error(deep).find("nested levels") != std::string::npos);
}

TEST_CASE("a classifier of one label is a model that scores, others are refused") {
  const std::string_view name = "LlamaForSequenceClassification";
  const json one = {{"id2label", {{"0", "LABEL_0"}}}};
  CHECK(parse(one, name).score);
  CHECK_FALSE(parse(one, name).has_new_score);
  CHECK(parse({{"num_labels", 1}}, name).score);
  CHECK_FALSE(parse(json::object()).score);
  CHECK(config_error(json::object(), name).find("expected a classifier of one label, which is a score, got 2") !=
        std::string::npos);
  CHECK(config_error({{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}}, name).find("got 3") != std::string::npos);
}

TEST_CASE("a classifier of tokens with two labels is a model that scores steps, others are refused") {
  const std::string_view name = "LlamaForTokenClassification";
  CHECK(parse(json::object(), name).score == kStepScores);
  CHECK_FALSE(parse({{"token_classification_bias", false}}, name).score->has_bias);
  CHECK(config_error({{"num_labels", 3}}, name).find("expected a classifier of tokens with two labels") !=
        std::string::npos);
}
