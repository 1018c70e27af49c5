// A model learns from a teacher as TRL's GKD trainer has it, also with the teacher in slower memory. The numbers are
// TRL's own: tools/make_distillation_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/golden_weights.h"
#include "tests/support/preference_run.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

fs::path distillation_goldens() { return source_folder() / "tests/golden/distillation"; }

config::Config distillation_config(const std::string& name, const fs::path& output,
                                   std::vector<config::ConfigOverride> changes = {}) {
  return golden_config(distillation_goldens() / "cases" / name, output, changes);
}

const char* weights_file(const config::Config& config) {
  return config.adapter ? "adapter_model.safetensors" : "model.safetensors";
}

}  // namespace

TEST_CASE("a model learns from a teacher as with TRL's GKD trainer, with axolotl's terms, too") {
  const std::vector<std::string> names = golden_cases(distillation_goldens());
  REQUIRE(names.size() == 3);
  for (const std::string& name : names) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const config::Config config = distillation_config(name, folder.path() / "out");
    const PreferenceRun run = run_preference(config);
    const fs::path golden = distillation_goldens() / "cases" / name;
    const json steps = json::parse(read_file(golden / "expected.json", 1 << 20))["steps"];
    REQUIRE(run.steps.size() == steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      for (const char* key : {"loss", "grad_norm"}) {
        const double trl = steps[i][key].get<double>();
        CHECK(std::abs(run.steps[i].at(key) - trl) <= 1e-3 * std::max(1.0, std::abs(trl)));
      }
    }
    const fs::path start = config.adapter ? config.adapter->model_dir : config.model.base_model;
    const char* const file = weights_file(config);
    CHECK(distance_of_weights(golden / "final.safetensors", start / file, run.output / file) <= kMostOffOfUpdate);
  }
}

TEST_CASE("where the teacher's weights live, and the order of micro-batches, change no bit of what is learned") {
  const TemporaryFolder folder;
  const auto outcome = [&](const char* name, const std::vector<config::ConfigOverride>& changes) {
    const config::Config config = distillation_config("kd_full", folder.path() / name, changes);
    const PreferenceRun run = run_preference(config);
    return std::pair(run.steps, read_file(run.output / weights_file(config), 1 << 24));
  };
  const auto here = outcome("here", {});
  CHECK(outcome("host", {{"parameter_offload", "host"}}) == here);
  CHECK(outcome("disk", {{"parameter_offload", "disk"}, {"activation_offloading", "disk"}}) == here);
  CHECK(outcome("recomputed", {{"gradient_checkpointing", "true"}}) == here);
  CHECK(outcome("vertical", {{"micro_batch_order", "vertical"}, {"parameter_offload", "disk"}}) == here);
  const config::ConfigOverride five = {"gradient_accumulation_steps", "5"};
  CHECK(outcome("groups", {five, {"micro_batch_order", "vertical"}, {"micro_batch_group", "2"}}) ==
        outcome("five", {five}));
}
