// Every family against llama.cpp's converter: tests/golden/export/families.json (tools/make_gguf_family_goldens.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/gguf/export.h"
#include "model/gguf/import.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/weights.h"
#include "tests/support/gguf_family_goldens.h"

namespace fs = std::filesystem;
using namespace spillway;
using namespace spillway::testing;

namespace {

// Checks that the folder's weights are those that the family's goldens were made of, bit for bit. -exp does not come
// back but to within its rounding, about 2^-24 of a number below 1.
void check_weights(const fs::path& folder, const json& shapes) {
  const SafetensorsFolder stored(folder);
  CHECK(stored.tensors().size() == shapes.size());
  for (const auto& [name, shape] : shapes.items()) {
    INFO(name);
    const StoredTensor* found = stored.find(name);
    REQUIRE(found != nullptr);
    CHECK(json(found->shape) == shape);
    const std::vector<float> expected = values_of(name, shape);
    std::vector<float> values(expected.size());
    stored.read(name, DType::kF32, values.data());
    const float tolerance = name.ends_with(".A_log") ? 2e-7F : 0;
    for (size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - expected[i]) <= tolerance);
  }
}

std::string refusal_of(const std::string& name, const std::string& patch) {
  const TemporaryFolder folder;
  json family = family_goldens().at(name);
  family["config"].update(json::parse(patch), true);
  const fs::path model = write_family(folder, family);
  try {
    (void)export_gguf(model, {}, folder.path() / "x.gguf", in_type("f32"));
  } catch (const InputError& error) {
    CHECK_FALSE(fs::exists(folder.path() / "x.gguf"));
    const std::string text = error.what(), where = (model / "config.json: ").string();
    REQUIRE(text.find(where) == 1);
    return text.substr(1 + where.size(), text.find(']') - 1 - where.size());
  }
  return "no error";
}

}  // namespace

TEST_CASE("each family's file has the tensors and the metadata that llama.cpp's converter writes") {
  REQUIRE(family_goldens().size() == 56);
  for (const auto& [name, family] : family_goldens().items()) {
    INFO(name);
    const TemporaryFolder folder;
    const fs::path model = write_family(folder, family);
    for (const std::string type : {"f32", "f16", "bf16", "q8_0"}) {
      INFO(type);
      const fs::path path = folder.path() / (type + ".gguf");
      export_gguf(model, {}, path, in_type(type));
      const GgufFile file(path);
      check_tensors(file, family.at("tensors"), type);
      check_metadata(file, family.at("metadata"), name);
    }
  }
}

TEST_CASE("each family's file becomes a folder with the same weights, whose file is the same") {
  for (const auto& [name, family] : family_goldens().items()) {
    if (name == "llama") continue;  // its factors are not Llama 3.1's, which alone are turned back (import_test.cc)
    INFO(name);
    const TemporaryFolder folder;
    const fs::path model = write_family(folder, family), file = folder.path() / "x.gguf", back = folder.path() / "back";
    export_gguf(model, {}, file, in_type("f32"));
    import_gguf(file, back, {.dtype = DType::kF32});
    const ModelPtr read = read_model(back);
    CHECK_NOTHROW(read->check_trains());
    CHECK_NOTHROW((void)open_model_weights(back, parameters_of(*read)));
    write_file(back / "tokenizer.json", small_tokenizer().dump());
    export_gguf(back, {}, folder.path() / "again.gguf", in_type("f32"));
    // Names of modules in a Granite 4 without states are Granite 3's, and Falcon-H1's multipliers are in its weights.
    const bool has_other_weights =
        name.ends_with("_wrapper") || name == "granite4_attention" || name.starts_with("falcon");
    if (!has_other_weights) check_weights(back, family.at("weights"));
    // A text model inside Mistral 3 stands alone afterwards, a Mistral is a Llama to llama.cpp, and a Granite 4 without
    // states a Granite 3.
    const GgufFile first(file), second(folder.path() / "again.gguf");
    for (const auto& [tensor, entry] : first.tensors()) {
      INFO(tensor);
      const GgufTensor* found = second.find_tensor(tensor);
      REQUIRE(found != nullptr);
      std::vector<float> before(static_cast<size_t>(entry.elems())), after(before.size());
      first.read_rows(entry, 0, entry.elems() / entry.row_elems(), before.data());
      second.read_rows(*found, 0, found->elems() / found->row_elems(), after.data());
      CHECK(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) == 0);
    }
    if (name == "mistral3_wrapper" || name == "granite4_attention") continue;
    for (const auto& [key, value] : first.metadata()) {
      INFO(key);
      if (key.starts_with("tokenizer.") || key == "general.name") continue;
      REQUIRE(second.metadata().contains(key));
      CHECK(second.metadata().at(key) == value);
    }
  }
}

TEST_CASE("each family's tensors have the encodings in a Q4_K_M file that llama-quantize gives them") {
  for (const auto& [name, family] : family_goldens().items()) {
    INFO(name);
    const TemporaryFolder folder;
    const fs::path model = write_family(folder, family), path = folder.path() / "x.gguf";
    export_gguf(model, {}, path, in_type("q4_k_m"));
    const GgufFile file(path);
    for (const auto& [tensor, entry] : family.at("tensors").items()) {
      INFO(tensor);
      const GgufTensor* found = file.find_tensor(tensor);
      REQUIRE(found != nullptr);
      CHECK(layout_of(found->type).name == entry.at("q4_k_m").get<std::string>());
    }
  }
}

TEST_CASE("a mixture of experts in a mixture of encodings has each expert's values, rounded") {
  const TemporaryFolder folder;
  const fs::path model = write_family(folder, family_goldens().at("mixtral"));
  export_gguf(model, {}, folder.path() / "exact.gguf", in_type("f32"));
  export_gguf(model, {}, folder.path() / "rounded.gguf", in_type("q4_k_m"));
  const GgufFile exact(folder.path() / "exact.gguf"), rounded(folder.path() / "rounded.gguf");
  constexpr float kStep = 2.0f / 31;  // of five bits over [-1, 1)
  for (const auto& [name, tensor] : exact.tensors()) {
    INFO(name);
    const GgufTensor* found = rounded.find_tensor(name);
    REQUIRE(found != nullptr);
    std::vector<float> expected(static_cast<size_t>(tensor.elems())), values(expected.size());
    exact.read_rows(tensor, 0, tensor.elems() / tensor.row_elems(), expected.data());
    rounded.read_rows(*found, 0, found->elems() / found->row_elems(), values.data());
    float worst = 0;
    for (size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(values[i] - expected[i]));
    CHECK(worst <= kStep);
  }
  CHECK(rounded.find_tensor("blk.0.ffn_gate_exps.weight")->type == GgufType::kQ5_0);
  CHECK(rounded.find_tensor("blk.0.ffn_gate_inp.weight")->type == GgufType::kF32);
}

TEST_CASE("what a family's file cannot say is refused by the key of config.json") {
  const std::string yarn = R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0,)"
                           R"("original_max_position_embeddings": 16, )";
  const std::vector<std::array<std::string, 3>> cases = {
      {"gemma", R"({"tie_word_embeddings": false})", "tie_word_embeddings"},
      {"gemma", R"({"rope_parameters": {"rope_theta": 20000.0}})", "rope_theta"},
      {"gemma", R"({"attention_bias": true})", "attention_bias"},
      {"gemma2", R"({"query_pre_attn_scalar": 24})", "query_pre_attn_scalar"},
      {"gemma2", R"({"layer_types": ["full_attention", "sliding_attention"]})", "layer_types"},
      {"gemma2", R"({"attn_logit_softcapping": null})", "attn_logit_softcapping"},
      {"gemma2", R"({"final_logit_softcapping": null})", "final_logit_softcapping"},
      {"gemma3", R"({"attn_logit_softcapping": 50.0})", "attn_logit_softcapping"},
      {"phi3", R"({"head_dim": 16})", "head_dim"},
      {"phi3", R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0}})", "rope_scaling.rope_type"},
      {"granite", R"({"head_dim": 16})", "head_dim"},
      {"smollm3", R"({"no_rope_layers": [1, 0, 1, 1, 1]})", "no_rope_layers"},
      {"smollm3", R"({"attention_bias": true})", "attention_bias"},
      {"olmo2", R"({"tie_word_embeddings": true})", "tie_word_embeddings"},
      {"olmo3", R"({"rope_parameters": {"sliding_attention": {"rope_theta": 500.0}}})", "rope_theta"},
      {"ministral3", R"({"rope_parameters": {"rope_type": "default"}})", "rope_scaling.rope_type"},
      {"ministral3", R"({"rope_parameters": {"mscale": 2.0}})", "rope_scaling.attention_factor"},
      {"arcee", R"({"mlp_bias": true})", "mlp_bias"},
      {"seed_oss", R"({"attention_out_bias": true})", "attention_bias, attention_out_bias"},
      {"cohere", R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0}})", "rope_scaling.rope_type"},
      {"cohere2",
       R"({"sliding_window": null, "layer_types": ["full_attention", "full_attention", "full_attention",)"
       R"("full_attention", "full_attention"]})",
       "layer_types"},
      {"qwen3_moe", R"({"mlp_only_layers": [1]})", "mlp_only_layers, decoder_sparse_step"},
      {"qwen3_moe", R"({"norm_topk_prob": false})", "norm_topk_prob"},
      {"olmoe", R"({"norm_topk_prob": true})", "norm_topk_prob"},
      {"olmoe", R"({"num_key_value_heads": 2})", "num_key_value_heads"},
      {"qwen3_5", R"({"attention_bias": true})", "attention_bias"},
      {"qwen3_5",
       R"({"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,)"
       R"("high_freq_factor": 4.0, "original_max_position_embeddings": 16}})",
       "rope_scaling.rope_type"},
      {"qwen3_5", R"({"rope_parameters": {"mrope_section": [11, 11, 10]}})", "rope_parameters.mrope_section"},
      {"qwen3_next", R"({"mlp_only_layers": [1]})", "mlp_only_layers, decoder_sparse_step"},
      {"qwen3_next", R"({"norm_topk_prob": false})", "norm_topk_prob"},
      {"lfm2_moe", R"({"use_expert_bias": false})", "use_expert_bias"},
      {"lfm2_moe", R"({"routed_scaling_factor": 2.0})", "routed_scaling_factor"},
      {"lfm2_moe", R"({"num_dense_layers": 3})",
       "first_k_dense_replace, mlp_layer_types, num_dense_layers, n_routed_experts"},
      {"gpt_oss", R"({"attention_bias": false})", "attention_bias"},
      {"gpt_oss", R"({"swiglu_limit": 5.0})", "swiglu_limit"},
      {"gpt_oss", R"({"swiglu_alpha": 1.5})", "swiglu_alpha"},
      {"gpt_oss", R"({"layer_types": ["full_attention", "sliding_attention"]})", "layer_types"},
      {"deepseek_v2", R"({"topk_method": "group_limited_greedy", "n_group": 2})", "n_group, topk_method"},
      {"deepseek_v2", R"({"q_lora_rank": null})", "q_lora_rank"},
      {"deepseek_v3", R"({"rope_parameters": {"mscale": 1.0}})", "rope_scaling.attention_factor"},
      {"deepseek_v3", R"({"rope_parameters": {"mscale_all_dim": 0.0}})", "rope_scaling.mscale_all_dim"},
      {"deepseek_v3", R"({"rope_parameters": {"rope_type": "linear"}})", "rope_scaling.rope_type"},
      {"glm4_moe_lite", R"({"mlp_layer_types": ["sparse", "dense"]})",
       "first_k_dense_replace, mlp_layer_types, num_dense_layers, n_routed_experts"},
      {"gemma4", R"({"rope_parameters": {"full_attention": {"rope_type": "default", "partial_rotary_factor": 1.0}}})",
       "rope_scaling.rope_type"},
      {"gemma4", R"({"rope_parameters": {"full_attention": {"factor": 2.0}}})",
       "rope_parameters.full_attention.factor"},
      {"gemma4", R"({"final_logit_softcapping": null})", "final_logit_softcapping"},
      {"afmoe", R"({"mup_enabled": false})", "mup_enabled"},
      {"afmoe",
       R"({"layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",)"
       R"("sliding_attention"]})",
       "layer_types"},
      {"nemotron", R"({"tie_word_embeddings": true})", "tie_word_embeddings"},
      {"nemotron", R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0}})", "rope_scaling.rope_type"},
      {"hunyuan_v1_dense", R"({"attention_bias": true})", "attention_bias"},
      {"minimax_m2", R"({"tie_word_embeddings": true})", "tie_word_embeddings"},
      {"granite4", R"({"mamba_proj_bias": true})", "mamba_proj_bias"},
      {"bamba", R"({"mamba_expand": 1, "mamba_d_head": 8})", "mamba_expand"},
      {"bamba",
       R"({"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,)"
       R"("high_freq_factor": 4.0, "original_max_position_embeddings": 16}})",
       "rope_scaling.rope_type"},
      {"apertus", R"({"tie_word_embeddings": true})", "tie_word_embeddings"},
      {"mistral4_wrapper", R"({"text_config": {"rope_parameters": {"mscale": 0.7, "mscale_all_dim": 0.7}}})",
       "rope_scaling.mscale_all_dim"},
      {"gemma4_e2b", R"({"num_kv_shared_layers": 2})", "num_kv_shared_layers, layer_types"},
      {"granite4", R"({"mamba_conv_bias": false})", "mamba_conv_bias"},
      {"granite4", R"({"mamba_expand": 1, "mamba_d_head": 8})", "mamba_expand"},
      {"granite4", R"({"time_step_limit": [0.0, 0.5]})", "time_step_limit"},
      {"jamba", R"({"mamba_expand": 1})", "mamba_expand"},
      {"jamba", R"({"mamba_conv_bias": false})", "mamba_conv_bias"},
      {"jamba", R"({"mamba_proj_bias": true})", "mamba_proj_bias"},
      {"falcon_h1_norm", R"({"mamba_norm_before_gate": true})", "mamba_norm_before_gate"},
      {"falcon_h1", R"({"attention_bias": true})", "attention_bias"},
      {"falcon_h1", R"({"tie_word_embeddings": true})", "tie_word_embeddings"},
      {"nemotron_h_moe",
       R"({"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "hybrid_override_pattern": "ME*-"})",
       "layers_block_type"},
      {"qwen3", yarn + R"("beta_fast": 64.0}})", "rope_scaling.beta_fast, beta_slow"},
      {"qwen3", yarn + R"("attention_factor": 2.0}})", "rope_scaling.attention_factor"},
      {"qwen3", yarn + R"("truncate": false}})", "rope_scaling.truncate"},
  };
  for (const auto& [name, patch, key] : cases) {
    INFO(name, " ", patch);
    CHECK(refusal_of(name, patch) == key);
  }
}

TEST_CASE("a Jamba without experts becomes a folder without them, and layers at unequal distances are refused") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "x.gguf", back = folder.path() / "back";
  export_gguf(write_family(folder, family_goldens().at("jamba")), {}, file, in_type("f32"));
  const std::string bytes = read_file(file, 1 << 20);
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string other = bytes;
    const size_t at = other.find(from);
    REQUIRE(at != std::string::npos);
    other.replace(at, from.size(), to);
    write_file(folder.path() / "changed.gguf", other);
    return folder.path() / "changed.gguf";
  };
  // Keys in layers 1 and 4 of five; then in layer 2, too.
  const auto list = [](std::array<int32_t, 5> heads) {
    return std::string(reinterpret_cast<const char*>(heads.data()), sizeof heads);
  };
  CHECK_THROWS_WITH_AS(import_gguf(changed(list({0, 2, 0, 0, 2}), list({0, 2, 2, 0, 2})), back, {}),
                       doctest::Contains("expected layers with keys 1 apart, from layer 1 on, got some in layer 1"),
                       InputError);
  CHECK_THROWS_WITH_AS(import_gguf(changed("blk.3.ffn_gate_inp.weight", "blk.2.ffn_gate_inp.weight"), back, {}),
                       doctest::Contains("expected"), InputError);
  CHECK_FALSE(fs::exists(back));

  json family = family_goldens().at("jamba");
  family["config"]["num_experts"] = 1;
  json weights = json::object();
  for (const auto& [name, shape] : family["weights"].items()) {
    const size_t expert = name.find(".experts.");
    if (expert == std::string::npos && name.find(".router.") == std::string::npos) weights[name] = shape;
    if (name.find(".experts.0.") != std::string::npos) weights[std::string(name).erase(expert, 10)] = shape;
  }
  family["weights"] = weights;
  const TemporaryFolder dense;
  export_gguf(write_family(dense, family), {}, dense.path() / "x.gguf", in_type("f32"));
  CHECK_FALSE(GgufFile(dense.path() / "x.gguf").metadata().contains("jamba.expert_count"));
  import_gguf(dense.path() / "x.gguf", dense.path() / "back", {.dtype = DType::kF32});
  CHECK_NOTHROW(read_model(dense.path() / "back")->check_trains());
  check_weights(dense.path() / "back", weights);
}
