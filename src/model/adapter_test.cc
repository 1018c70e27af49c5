#include "model/adapter.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/adapter_targets.h"
#include "model/fresh_factors.h"
#include "model/model.h"
#include "model/path_pattern.h"
#include "model/weights.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using spillway::testing::kGoldenModels;

namespace {

template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the scale is alpha over r, or over its root with rslora") {
  CHECK(LoraOptions{.r = 4, .alpha = 8}.scale_of("model.norm") == 2.0);
  CHECK(LoraOptions{.r = 4, .alpha = 8, .rslora = true}.scale_of("a") == 4.0);
  const LoraOptions lora{.r = 4, .alpha = 8, .ranks = {{"a.b", 16}}, .alphas = {{"a.c", 2}}};
  CHECK(lora.scale_of("a.b") == 0.5);
  CHECK(lora.scale_of("a.c") == 0.5);
  CHECK(lora.scale_of("b") == 2.0);
}

TEST_CASE("targets match whole names and tails after a dot, as in PEFT") {
  const LoraOptions tail{.target_modules = {"q_proj", "mlp.up_proj", "model.layers.1.self_attn.o_proj"}};
  CHECK(is_adapted(tail, "model.layers.0.self_attn.q_proj"));
  CHECK(is_adapted(tail, "model.layers.3.mlp.up_proj"));
  CHECK(is_adapted(tail, "model.layers.1.self_attn.o_proj"));
  CHECK(!is_adapted(tail, "model.layers.0.self_attn.o_proj"));
  CHECK(!is_adapted(LoraOptions{.target_modules = {"proj"}}, "model.layers.0.self_attn.q_proj"));
  CHECK(is_adapted({}, "model.layers.0.mlp.down_proj"));
  CHECK(!is_adapted({}, "lm_head"));
}

TEST_CASE("targets come in the order of the model, and one that matches nothing is an error") {
  const ParameterTable parameters = parameters_of(*read_model(kGoldenModels / "llama32"));
  CHECK(lora_targets(parameters, {.target_modules = {"down_proj", "q_proj"}}, "lora_target_modules") ==
        std::vector<std::string>{"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj",
                                 "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj"});
  CHECK(lora_targets(parameters, {}, "lora_target_modules").size() == 14);
  for (const char* wrong : {"w1", "lm_head", "embed_tokens", "model.layers.2.mlp.up_proj"}) {
    const std::string error = error_of([&] {
      (void)lora_targets(parameters, {.target_modules = {"q_proj", wrong}}, "key");
    });
    CHECK(error.find(std::string("got '") + wrong) != std::string::npos);
  }
}

TEST_CASE("an adapter folder of PEFT is read") {
  const LoraOptions lora = read_adapter_options(kGoldenModels / "llama32/adapter");
  CHECK(lora.r == 4);
  CHECK(lora.alpha == 8);
  CHECK(!lora.rslora);
  CHECK(lora.target_modules.size() == 6);
  CHECK(!lora.dora);
  CHECK(read_adapter_options(kGoldenModels / "llama2/adapter_rslora").rslora);
  CHECK(read_adapter_options(kGoldenModels / "llama2/adapter_dora").dora);
}

TEST_CASE("modules to save are found by the ends of their paths, and untie the head") {
  const auto names_of_saved = [](const ModelPtr& model, const LoraOptions& lora) {
    return saved_weights(parameters_of(*model), lora, "key");
  };
  using Names = std::vector<std::string>;
  const ModelPtr tied = read_model(kGoldenModels / "llama32");
  REQUIRE(tied->text()->with_own_head());
  LoraOptions lora{.target_modules = {"q_proj"}, .modules_to_save = {"layers.1.input_layernorm"}};
  CHECK(untie_head(tied, lora) == tied);
  CHECK(names_of_saved(tied, lora) == Names{"model.layers.1.input_layernorm.weight"});
  lora.modules_to_save = {"lm_head", "model.norm"};
  const ModelPtr untied = untie_head(tied, lora);
  CHECK(parameters_of(*untied).find("lm_head.weight")->source.name == "model.embed_tokens.weight");
  CHECK(names_of_saved(untied, lora) == Names{"model.norm.weight", "lm_head.weight"});
  for (const char* wrong : {"embeddings", "", "model.layers.0.mlp", "q_proj"}) {
    lora.modules_to_save = {"lm_head", wrong};
    CHECK(error_of([&] {
            (void)saved_weights(parameters_of(*untied), lora, "key");
          }).starts_with("[key] expected layers"));
  }
}

TEST_CASE("an adapter with resized embeddings makes the model fit") {
  const std::filesystem::path folder = kGoldenModels / "qwen2_tied/adapter_saved";
  const LoraOptions lora = read_adapter_options(folder);
  CHECK(lora.modules_to_save.size() == 2);
  const ModelPtr model = fit_to_adapter(read_model(kGoldenModels / "qwen2_tied"), lora, folder);
  CHECK(model->text()->vocab_size == 100);
  CHECK(parameters_of(*model).find("model.embed_tokens.weight")->source.shape[0] == 96);
  CHECK_FALSE(model->text()->with_own_head());
}

TEST_CASE("an adapter's tensors are of the layers that its config lists") {
  const TemporaryFolder folder;
  std::filesystem::copy(kGoldenModels / "llama32/adapter", folder.path(), std::filesystem::copy_options::recursive);
  const auto list = [&](const nlohmann::json& targets) {
    const std::filesystem::path path = folder.path() / "adapter_config.json";
    nlohmann::json config = nlohmann::json::parse(read_file(path, 1 << 20));
    config["target_modules"] = targets;
    write_file(path, config.dump());
  };
  list({"q_proj", "v_proj"});
  CHECK(error_of([&] {
          (void)read_adapter_options(folder.path());
        }).find("got none for 'model.layers.0.mlp.down_proj'") != std::string::npos);
  list({"q_proj", "v_proj", "down_proj", "query_key_value"});
  CHECK(read_adapter_options(folder.path()).target_modules.size() == 6);
  list(".*(q|v|down)_proj");
  CHECK(read_adapter_options(folder.path()).target_modules.size() == 6);
}

TEST_CASE("an adapter's rank is that of its tensors, and an adapter_config.json without another names r") {
  const TemporaryFolder folder;
  const std::filesystem::path source = kGoldenModels / "llama32/adapter";
  std::filesystem::copy_file(source / "adapter_model.safetensors", folder.path() / "adapter_model.safetensors");
  auto config = nlohmann::json::parse(read_file(source / "adapter_config.json", 1 << 20));
  const int64_t rank = config["r"];
  REQUIRE(rank != 8);
  const std::string where = "[" + (folder.path() / "adapter_config.json").string() + "] ";
  config.erase("r");
  write_file(folder.path() / "adapter_config.json", config.dump());
  CHECK(error_of([&] { (void)read_adapter_options(folder.path()); }) ==
        where + fmt::format("expected r to be the rank of the tensors, {0}, got 8; write \"r\": {0}", rank));
  config["r"] = rank;
  write_file(folder.path() / "adapter_config.json", config.dump());
  CHECK(read_adapter_options(folder.path()).r == rank);
}

TEST_CASE("an adapter of an embedding is refused by its name") {
  const TemporaryFolder folder;
  const TensorSpec spec{"base_model.model.model.embed_tokens.lora_embedding_A", DType::kF32, {2, 3}};
  SafetensorsWriter writer(folder.path() / "adapter_model.safetensors", {spec});
  const std::vector<float> values(6);
  writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  writer.commit();
  CHECK(error_of([&] {
          (void)open_adapter_weights(folder.path(), {}, {});
        }).find("expected low-rank factors of linear layers, got those of an embedding") != std::string::npos);
}

TEST_CASE("adapters of another kind are refused") {
  nlohmann::json config =
      nlohmann::json::parse(read_file(kGoldenModels / "llama2/adapter/adapter_config.json", 1 << 20));
  const auto error_with = [&](const char* key, const nlohmann::json& value) {
    const TemporaryFolder folder;
    config[key] = value;
    write_file(folder.path() / "adapter_config.json", config.dump());
    return error_of([&] { (void)read_adapter_options(folder.path()); });
  };
  SUBCASE("kind") {
    CHECK(error_with("peft_type", "IA3").find("expected peft_type LORA, got 'IA3'") != std::string::npos);
  }
  SUBCASE("QALoRA") { CHECK(error_with("use_qalora", true).find("got one with use_qalora") != std::string::npos); }
  SUBCASE("biases") { CHECK(error_with("bias", "all").find("got 'all'") != std::string::npos); }
  SUBCASE("base") {
    CHECK(error_with("init_lora_weights", "pissa_niter_4").find("got init_lora_weights 'pissa") != std::string::npos);
  }
  SUBCASE("ranks") {
    const TemporaryFolder folder;
    std::filesystem::copy(kGoldenModels / "llama2/adapter", folder.path(),
                          std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
    config["rank_pattern"] = {{".*", 8}};
    write_file(folder.path() / "adapter_config.json", config.dump());
    CHECK(error_of([&] {
            (void)read_adapter_options(folder.path());
          }).find("expected r to be the rank of the tensors, 4, got 8") != std::string::npos);
  }
  SUBCASE("alpha") { CHECK(error_with("lora_alpha", nullptr).find(": lora_alpha] expected") != std::string::npos); }
  SUBCASE("rank 0") { CHECK(error_with("r", 0).find(": r] expected an integer from 1") != std::string::npos); }
}

TEST_CASE("adapter_config.json names kinds of layers where it can, else single layers") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  const auto targets_in = [&](const LoraOptions& lora) {
    return nlohmann::json::parse(adapter_config_json(parameters_of(*model), lora, "base"))["target_modules"];
  };
  CHECK(targets_in(read_adapter_options(kGoldenModels / "llama32/adapter")) ==
        nlohmann::json{"down_proj", "q_proj", "v_proj"});
  CHECK(targets_in({.target_modules = {"model.layers.1.mlp.up_proj"}}) == nlohmann::json{"model.layers.1.mlp.up_proj"});
  CHECK(targets_in({}).size() == 7);
}

TEST_CASE("adapter_config.json is JSON, whatever bytes the base's path has") {
  const ModelPtr model = read_model(kGoldenModels / "llama32");
  const auto json = nlohmann::json::parse(adapter_config_json(parameters_of(*model), {}, "caf\xe9/base"));
  CHECK(json["base_model_name_or_path"] == "caf\xef\xbf\xbd/base");
}

TEST_CASE("A starts uniform, by seed and name, in however many pieces") {
  const Parameter factor{.module = "model.layers.0.mlp.up_proj", .role = ParameterRole::kLoraA, .shape = {100, 100}};
  std::vector<float> a(10000), again(10000), other(10000);
  initialise_lora_a(a, 0, factor, 1);
  initialise_lora_a(std::span(again).first(37), 0, factor, 1);
  initialise_lora_a(std::span(again).subspan(37), 37, factor, 1);
  initialise_lora_a(other, 0, factor, 2);
  CHECK(a == again);
  CHECK(a != other);
  const double square = std::inner_product(a.begin(), a.end(), a.begin(), 0.0) / 10000;
  CHECK(square == doctest::Approx(0.01 / 3).epsilon(0.05));
  for (const float value : a) REQUIRE(std::abs(value) <= 0.1f);
}

TEST_CASE("a pattern means the modules whose path it ends, behind a dot or from the start, as PEFT has it") {
  CHECK(PathPattern("q_proj", "key").matches("model.layers.0.self_attn.q_proj"));
  CHECK(PathPattern("self_attn.q_proj", "key").matches("model.layers.0.self_attn.q_proj"));
  CHECK(PathPattern("layers.[01].*", "key").matches("model.layers.1.mlp.up_proj"));
  CHECK(PathPattern("model.norm", "key").matches("model.norm"));
  CHECK_FALSE(PathPattern("_proj", "key").matches("model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(PathPattern("q_proj", "key").matches("model.layers.0.self_attn.q_proj.weight"));
  CHECK_THROWS_AS((void)PathPattern("(", "key").matches("a"), InputError);
}

TEST_CASE("the layer of a module is the last number in its path that has a list before it and a module behind") {
  CHECK(layer_of("model.layers.3.mlp.up_proj") == 3);
  CHECK(layer_of("model.layers.3.experts.12.up_proj") == 12);
  CHECK(layer_of("model.layers.3.experts.12.up_proj", std::vector<std::string>{"layers"}) == 3);
  CHECK_FALSE(layer_of("model.layers.3.mlp.up_proj", std::vector<std::string>{"h"}));
  CHECK_FALSE(layer_of("model.norm"));
  CHECK_FALSE(layer_of("layers.3.mlp"));  // PEFT's paths have a name before the list
  CHECK_FALSE(layer_of("model.layers.3"));
  const LoraOptions lora{.target_modules = {"q_proj"}, .layers_to_transform = {1}};
  CHECK(is_adapted(lora, "model.layers.1.self_attn.q_proj"));
  CHECK_FALSE(is_adapted(lora, "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(is_adapted(lora, "lm_head.q_proj"));
}

TEST_CASE("ranks, scales and layers are written as PEFT's patterns: brief where they hold for a kind of layer") {
  const ModelPtr model = read_model(kGoldenModels / "qwen3");
  LoraOptions lora{.r = 4, .alpha = 8, .target_modules = {"q_proj", "up_proj"}};
  lora.ranks = {{"model.layers.0.self_attn.q_proj", 2}, {"model.layers.1.self_attn.q_proj", 2}};
  lora.alphas = {{"model.layers.1.mlp.up_proj", 3}};
  lora.start = LoraStart::kGaussian;
  const auto json_of = [&] { return nlohmann::json::parse(adapter_config_json(parameters_of(*model), lora, "base")); };
  nlohmann::json json = json_of();
  CHECK(json["rank_pattern"] == nlohmann::json{{"q_proj", 2}});
  CHECK(json["alpha_pattern"] == nlohmann::json{{"model.layers.1.mlp.up_proj", 3.0}});
  CHECK(json["init_lora_weights"] == "gaussian");
  CHECK_FALSE(json.contains("layers_to_transform"));
  lora.layers_to_transform = {1};
  lora.layers_pattern = {"layers"};
  json = json_of();
  CHECK(json["target_modules"] == std::vector<std::string>{"q_proj", "up_proj"});
  CHECK(json["layers_to_transform"] == std::vector<int>{1});
  const LoraOptions again = parse_adapter_config(json.dump(), "file");
  CHECK(again.layers_to_transform == lora.layers_to_transform);
  CHECK(again.layers_pattern == lora.layers_pattern);
}

TEST_CASE("normal numbers have their deviation, and depend on their place alone") {
  const Parameter factor{.module = "m", .role = ParameterRole::kLoraA, .shape = {8, 4096}};
  std::vector<float> a(8 * 4096), again(a.size());
  initialise_normal(a, 0, factor, 0.125, 1);
  initialise_normal(std::span(again).first(1001), 0, factor, 0.125, 1);
  initialise_normal(std::span(again).subspan(1001), 1001, factor, 0.125, 1);
  CHECK(a == again);
  double mean = 0, square = 0;
  for (const float x : a) {
    mean += x / static_cast<double>(a.size());
    square += double{x} * x / static_cast<double>(a.size());
  }
  CHECK(std::abs(mean) < 3 * 0.125 / std::sqrt(a.size()));
  CHECK(std::sqrt(square) == doctest::Approx(0.125).epsilon(0.02));
}
