// Compares the functions that need math_verify with TRL's.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "rewards/rewards.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::rewards;

namespace {

RewardEntry math_entry(const Json& json) {
  RewardEntry entry{.name = json["name"]};
  for (const auto& [name, value] : json.items()) {
    if (name != "name") entry.arguments.push_back({name, value.get<double>()});
  }
  return entry;
}

// Returns all of a golden's completions, as texts or as messages.
RewardInput math_input(const Json& golden, bool as_messages) {
  RewardInput input;
  const size_t count = golden["rewards"].size();
  for (const Json& text : golden["completions"]) {
    input.completions.push_back(as_messages ? Json::array({{{"role", "assistant"}, {"content", text}}}) : text);
    input.prompts.push_back("");
  }
  input.completion_ids = golden.value("completion_ids", std::vector<std::vector<int32_t>>(count));
  input.columns["solution"] = golden["solution"];
  return input;
}

}  // namespace

TEST_CASE("accuracy rewards and what they log are TRL's") {
  const auto package = testing::source_folder() / "build/math_verify";
  REQUIRE_MESSAGE(std::filesystem::exists(package),
                  "math_verify is not in build/; run tools/install_dependencies math");
  ::setenv("PYTHONPATH", package.c_str(), 1);
  std::ifstream file(testing::source_folder() / "tests/golden/rewards/functions.json");
  std::vector<Json> goldens;
  RewardSettings settings;
  for (const Json& golden : Json::parse(file)) {
    if (!golden.contains("solution")) continue;
    goldens.push_back(golden);
    settings.functions.push_back(math_entry(golden["entry"]));
  }
  REQUIRE(goldens.size() == 4);
  RewardFunctions functions(settings);
  ::unsetenv("PYTHONPATH");
  CHECK(functions.names()[3] == "cosine_scaled_reward_2");
  for (size_t i = 0; i < goldens.size(); ++i) {
    const Json& golden = goldens[i];
    CAPTURE(golden["entry"].dump());
    // Each call computes all functions.
    const RewardOutput output = functions.evaluate(math_input(golden, i % 2 == 1))[i];
    REQUIRE(output.rewards.size() == golden["rewards"].size());
    for (size_t k = 0; k < output.rewards.size(); ++k) {
      CAPTURE(golden["completions"][k].dump());
      CAPTURE(golden["solution"][k].dump());
      const Json& expected = golden["rewards"][k];
      CHECK(output.rewards[k].has_value() == !expected.is_null());
      if (output.rewards[k] && !expected.is_null())
        CHECK(std::abs(*output.rewards[k] - expected.get<double>()) < 1e-12);
    }
    CHECK(output.extra == golden.value("extra", Json::object()));
  }
}
