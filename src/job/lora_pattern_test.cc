#include "job/lora_pattern.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "config/module_pattern.h"
#include "model/model.h"

using namespace spillway;
using namespace spillway::train;

namespace {

// Two layers.
ParameterTable tiny_model() {
  return parameters_of(*read_model(std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/llama2"));
}

std::set<std::string, std::less<>> matching(std::string_view pattern) {
  return modules_matching(tiny_model(), pattern, "lora_target_modules");
}

}  // namespace

TEST_CASE("a pattern has characters that a module's name has not") {
  CHECK(config::is_module_pattern(R"(.*\.q_proj)"));
  CHECK(config::is_module_pattern("model.layers.[\\d]+.mlp.up_proj"));
  CHECK_FALSE(config::is_module_pattern("q_proj"));
  CHECK_FALSE(config::is_module_pattern("self_attn.q_proj"));
  CHECK_FALSE(config::is_module_pattern("all-linear"));
}

TEST_CASE("a pattern matches whole paths of linear layers, as PEFT's fullmatch does") {
  CHECK(matching(R"(model.layers.[\d]+.mlp.(up|down)_proj)") ==
        std::set<std::string, std::less<>>{"model.layers.0.mlp.down_proj", "model.layers.0.mlp.up_proj",
                                           "model.layers.1.mlp.down_proj", "model.layers.1.mlp.up_proj"});
  CHECK(matching(R"(.*\.layers\.(1)\.self_attn\.(q|k|v|o)_proj)").size() == 4);
  CHECK(matching(R"(.*0.*q_proj|.*1.*k_proj)").size() == 2);
  CHECK_THROWS_WITH_AS((void)matching("layers.*q_proj"),
                       "[lora_target_modules] expected a pattern that matches layers such as "
                       "model.layers.0.self_attn.q_proj, got 'layers.*q_proj'; change it",
                       InputError);
  CHECK_THROWS_AS((void)matching("(a"), InputError);
  CHECK_THROWS_AS(config::check_module_pattern("[", "lora_target_modules"), InputError);
}

TEST_CASE("a pattern that matches the embedding or the head as well is refused, where PEFT would give them factors") {
  for (const char* one : {R"(.*lm_head|.*q_proj)", R"(.*embed_tokens|.*q_proj)", ".*"}) {
    CAPTURE(one);
    CHECK_THROWS_WITH_AS((void)matching(one), doctest::Contains(" as well; narrow it"), InputError);
  }
  CHECK(matching(R"((?!.*lm_head).*_proj)").size() == 14);
}
