// Quantisation-aware training as axolotl's qat has it. The numbers are those of transformers' Trainer with torchao's
// layers: tools/make_qat_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/config_error.h"
#include "tests/support/golden_weights.h"
#include "tests/support/preference_run.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

fs::path qat_goldens() { return source_folder() / "tests/golden/qat"; }

config::Config qat_config(const std::string& name, const fs::path& output,
                          const std::vector<config::ConfigOverride>& changes = {}) {
  return golden_config(qat_goldens() / "cases" / name, output, changes);
}

constexpr const char* kWeights = "model.safetensors";

}  // namespace

TEST_CASE("linear layers learn with weights and inputs that are rounded as torchao rounds them") {
  const std::vector<std::string> names = golden_cases(qat_goldens());
  REQUIRE(names.size() == 5);
  for (const std::string& name : names) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const config::Config config = qat_config(name, folder.path() / "out");
    const PreferenceRun run = run_preference(config);
    const fs::path golden = qat_goldens() / "cases" / name;
    const json steps = json::parse(read_file(golden / "expected.json", 1 << 20))["steps"];
    REQUIRE(run.steps.size() == steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      for (const char* key : {"loss", "grad_norm"}) {
        const double torchao = steps[i][key].get<double>();
        CHECK(std::abs(run.steps[i].at(key) - torchao) <= 1e-3 * std::max(1.0, std::abs(torchao)));
      }
    }
    CHECK(distance_of_weights(golden / "final.safetensors", fs::path(config.model.base_model) / kWeights,
                              run.output / kWeights) <= kMostOffOfUpdate);
  }
}

TEST_CASE("where weights and activations live changes no bit of quantisation-aware training") {
  const TemporaryFolder folder;
  const auto outcome = [&](const char* name, const std::vector<config::ConfigOverride>& changes) {
    const config::Config config = qat_config("int4_late", folder.path() / name, changes);
    const PreferenceRun run = run_preference(config);
    return std::pair(run.steps, read_file(run.output / kWeights, 1 << 24));
  };
  (void)outcome("bf16", {{"bf16", "true"}});
  const auto here = outcome("here", {});
  CHECK(outcome("host", {{"parameter_offload", "host"}, {"optimizer_offload", "host"}}) == here);
  CHECK(outcome("disk", {{"parameter_offload", "disk"}, {"activation_offloading", "disk"}}) == here);
  CHECK(outcome("recomputed", {{"gradient_checkpointing", "true"}}) == here);
  CHECK(outcome("vertical", {{"micro_batch_order", "vertical"}}) == here);
}
