#include "job/lora_options.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "model/adapter.h"

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

TEST_CASE("lora_target_linear is refused where it would mean experts, and means linear layers of Qwen2's mixture") {
  const auto targets = [](const char* name) {
    ModelPtr model = read_model(std::string(SPILLWAY_SOURCE_DIR "/tests/golden/models/") + name);
    std::vector<std::string> notes;
    return lora_targets(parameters_of(*model), lora_options(all_linear({}), model, notes), "lora_target_modules")
        .size();
  };
  for (const char* name : {"qwen3_moe", "mixtral", "olmoe", "glm4_moe"})
    CHECK_THROWS_WITH_AS((void)targets(name), doctest::Contains("[lora_target_linear] expected false"), InputError);
  CHECK(targets("qwen2_moe") == 4 + 3 + 4 + 3 + 1);
}
