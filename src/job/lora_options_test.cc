#include "job/lora_options.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "model/adapter.h"
#include "model/adapter_targets.h"

using namespace spillway;
using namespace spillway::train;

namespace {

std::vector<std::string> targets_of(const config::AdapterSettings& adapter) {
  ModelPtr model = read_model(SPILLWAY_SOURCE_DIR "/tests/golden/models/llama2");
  std::vector<std::string> notes;
  return lora_targets(parameters_of(*model), lora_options(adapter, model, notes), "lora_target_modules");
}

config::AdapterSettings all_linear(config::TargetModules named) {
  return {.r = 4, .alpha = 4, .target_modules = std::move(named), .target_linear = true};
}

}  // namespace

TEST_CASE("beside lora_target_linear what lora_target_modules names is one of all layers, or refused") {
  const std::vector<std::string> all = targets_of(all_linear({}));
  CHECK(all.size() == 14);  // seven in each of two layers
  CHECK(targets_of(all_linear({.names = {"q_proj", "down_proj"}})) == all);
  CHECK(targets_of(all_linear({.pattern = R"(.*\.q_proj)"})) == all);
  CHECK_THROWS_WITH_AS((void)targets_of(all_linear({.names = {"q_proj", "nope"}})),
                       doctest::Contains("[lora_target_modules] expected linear layers of the blocks ("), InputError);
  CHECK_THROWS_WITH_AS((void)targets_of(all_linear({.pattern = "nope.*"})),
                       doctest::Contains("[lora_target_modules] expected a pattern that matches layers"), InputError);
}

TEST_CASE("layers to adapt that the model does not have are named by the key that is wrong") {
  config::AdapterSettings adapter = all_linear({});
  adapter.layers_to_transform = {0, 7};
  CHECK_THROWS_WITH_AS((void)targets_of(adapter),
                       doctest::Contains("[peft_layers_to_transform] expected layers of the model, 2 of them, got 7"),
                       InputError);
  adapter.layers_pattern = {"blocks", "h"};
  CHECK_THROWS_WITH_AS((void)targets_of(adapter),
                       doctest::Contains("[peft_layers_pattern] expected the name before the numbers of the model's "
                                         "layers, such as layers, got blocks, h"),
                       InputError);
}

TEST_CASE("names of Llama's layers that a model lacks are left out with a warning, if others are there") {
  const auto options_of = [](const char* name, std::vector<std::string> names, std::vector<std::string>& notes) {
    ModelPtr model = read_model(std::string(SPILLWAY_SOURCE_DIR "/tests/golden/models/") + name);
    return lora_options({.r = 4, .alpha = 4, .target_modules = {.names = std::move(names)}}, model, notes);
  };
  std::vector<std::string> notes;
  CHECK(options_of("arcee", {"q_proj", "gate_proj", "up_proj"}, notes).target_modules ==
        std::set<std::string, std::less<>>{"q_proj", "up_proj"});
  CHECK(notes == std::vector<std::string>{
                     "warning: [lora_target_modules] the model has no layers named gate_proj: they are left out"});
  notes.clear();
  CHECK(options_of("llama2", {"q_proj", "gate_proj"}, notes).target_modules.size() == 2);
  CHECK(options_of("qwen3_moe", {"q_proj", "gate_proj", "up_proj"}, notes).target_parameters.size() == 1);
  CHECK(notes.empty());
  CHECK_THROWS_WITH_AS((void)options_of("arcee", {"gate_proj"}, notes),
                       doctest::Contains("[lora_target_modules] expected linear layers of the blocks ("), InputError);
  CHECK_THROWS_WITH_AS((void)options_of("arcee", {"q_proj", "q_porj"}, notes),
                       doctest::Contains("[lora_target_modules] expected linear layers of the blocks ("), InputError);
}

namespace {

LoraOptions mixture_options(const char* name, const config::AdapterSettings& adapter) {
  ModelPtr model = read_model(std::string(SPILLWAY_SOURCE_DIR "/tests/golden/models/") + name);
  std::vector<std::string> notes;
  return lora_options(adapter, model, notes);
}

}  // namespace

// PEFT 0.21 has made adapter_experts/adapter_config.json of these models from all-linear.
TEST_CASE("lora_target_linear means attention, routers and experts of most mixtures, as in PEFT") {
  for (const char* name : {"qwen3_moe", "mixtral", "olmoe"}) {
    CAPTURE(name);
    const LoraOptions lora = mixture_options(name, all_linear({}));
    const std::string folder = fmt::format("{}/tests/golden/models/{}", SPILLWAY_SOURCE_DIR, name);
    const LoraOptions theirs = read_adapter_options(folder + "/adapter_experts");
    const ParameterTable parameters = parameters_of(*read_model(folder));
    CHECK(lora.target_modules == std::set<std::string, std::less<>>{"k_proj", "o_proj", "q_proj", "v_proj"});
    CHECK(lora.target_parameters == theirs.target_parameters);
    const std::vector<std::string> targets = lora_targets(parameters, lora, "ours");
    CHECK(targets == lora_targets(parameters, theirs, "theirs"));
    for (const std::string& target : targets) {
      CHECK(lora.rank_of(target) == theirs.rank_of(target));
      CHECK(2 * lora.alpha_of(target) == theirs.alpha_of(target));  // of 8, where ours is 4
    }
  }
  const LoraOptions qwen2 = mixture_options("qwen2_moe", all_linear({}));
  CHECK(lora_targets(parameters_of(*read_model(SPILLWAY_SOURCE_DIR "/tests/golden/models/qwen2_moe")), qwen2, "key")
            .size() == 4 + 3 + 4 + 3 + 1);
}

TEST_CASE("names of projections of single experts mean the tensors of all, gate and up together") {
  const auto named = [](std::vector<std::string> names) {
    return config::AdapterSettings{.r = 4, .alpha = 4, .target_modules = {.names = std::move(names)}};
  };
  const LoraOptions lora = mixture_options("mixtral", named({"q_proj", "w1", "w2", "w3", "gate"}));
  CHECK(lora.target_modules == std::set<std::string, std::less<>>{"q_proj"});
  CHECK(lora.target_parameters == std::set<std::string, std::less<>>{"down_proj", "gate.weight", "gate_up_proj"});
  CHECK(lora.rank_of("model.layers.1.mlp.experts.gate_up_proj") == 8);
  CHECK(lora.rank_of("model.layers.1.mlp.experts.down_proj") == 4);
  CHECK_THROWS_WITH_AS((void)mixture_options("qwen3_moe", named({"q_proj", "up_proj"})),
                       doctest::Contains("[lora_target_modules] expected gate_proj and up_proj together"), InputError);
  // Dense layers of such a model get none.
  const LoraOptions down = mixture_options("qwen3_moe", named({"down_proj"}));
  CHECK(down.target_modules.empty());
  CHECK(!is_adapted(down, "model.layers.1.mlp.down_proj"));
  CHECK(is_adapted_tensor(down, "model.layers.0.mlp.experts.down_proj"));
}

TEST_CASE("lora_target_parameters alone adapt no linear layer, and must be there") {
  config::AdapterSettings adapter{.r = 4, .alpha = 4, .target_parameters = {"mlp.experts.down_proj"}};
  CHECK(mixture_options("qwen2_moe", adapter).target_modules.empty());
  CHECK_THROWS_WITH_AS((void)mixture_options("llama2", adapter),
                       doctest::Contains("[lora_target_parameters] expected tensors of experts or routers"),
                       InputError);
  adapter.dropout = 0.1;
  CHECK_THROWS_WITH_AS((void)mixture_options("olmoe", adapter),
                       doctest::Contains("[lora_target_parameters] expected no dropout"), InputError);
  config::AdapterSettings linear = all_linear({});
  linear.dropout = 0.1;
  CHECK_THROWS_WITH_AS((void)mixture_options("olmoe", linear),
                       doctest::Contains("[lora_target_linear] expected no dropout"), InputError);
}
