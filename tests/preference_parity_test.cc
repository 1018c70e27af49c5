// Preference objectives train as TRL's trainers do: loss, metrics and gradient norm at each of five steps, and the
// weights after them. The numbers are TRL's own: tools/make_preference_training_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/golden_weights.h"
#include "tests/support/preference_run.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kMostOff = 1e-3;  // of a number of a step, or as a share of it

// TRL's means over padding; ours are over tokens.
bool is_comparable(const std::string& name, const std::string& key) {
  if (key == "step" || key == "learning_rate" || key == "num_tokens" || key == "epoch") return false;
  const bool pads =
      name.starts_with("orpo") || name.starts_with("cpo") || name.starts_with("simpo") || name.starts_with("alphapo");
  return !pads || !key.starts_with("logits/");
}

void check_steps(const std::string& name, const json& expected, const PreferenceRun& run) {
  REQUIRE(run.steps.size() == expected.size());
  for (size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    for (const auto& [key, value] : expected[step].items()) {
      if (!is_comparable(name, key)) continue;
      CAPTURE(key);
      const auto found = run.steps[step].find(key);
      REQUIRE(found != run.steps[step].end());
      const double trl = value.get<double>();
      CHECK(std::abs(found->second - trl) <= kMostOff * std::max(1.0, std::abs(trl)));
    }
  }
}

}  // namespace

TEST_CASE("preference objectives train as TRL's trainers do") {
  const std::vector<std::string> names = preference_cases();
  REQUIRE(names.size() >= 56);
  for (const std::string& name : names) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const config::Config config = preference_config(name, folder.path() / "out");
    const PreferenceRun run = run_preference(config);
    const fs::path golden = preference_goldens() / "cases" / name;
    const json expected = json::parse(read_file(golden / "expected.json", 1 << 20));
    check_steps(name, expected["steps"], run);
    const bool lora = config.adapter.has_value();
    const fs::path start = lora ? fs::path(config.adapter->model_dir) : fs::path(config.model.base_model);
    const char* const file = lora ? "adapter_model.safetensors" : "model.safetensors";
    CHECK(distance_of_weights(golden / "final.safetensors", start / file, run.output / file) <= kMostOffOfUpdate);
  }
}
