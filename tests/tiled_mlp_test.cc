// Feed-forward parts that take the tokens tile by tile (tiled_mlp) compute what whole ones do, in less memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/storages/quantised.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/model_parity.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// A tiny job has room for 48 tokens, of which the golden batches fill fewer.
constexpr int64_t kTiles = 3;

TinySetup tiled(TinySetup setup) {
  setup.mlp_tiles = kTiles;
  return setup;
}

TinyOutcome tiled_outcome(const std::string& model, const TinySetup& setup, const std::string& lines = "") {
  return ModeJobs(setup, model).outcome(kPlainJob + lines);
}

// Returns the device memory of a plan for LoRA that recomputes a model whose feed-forward part is 64 times as wide as
// its stream.
int64_t device_bytes_in(int64_t tiles) {
  TinySetup setup{.adapter = "adapter", .config_overrides = R"({"intermediate_size": 2048})"};
  setup.start = LoraStart::kUniform;
  setup.mlp_tiles = tiles;
  const ModeJobs jobs(setup);
  train::Job job = jobs.job(std::string(kPlainJob) + "gradient_checkpointing: true\n");
  job.graph.model.tokens = 4096;
  job.graph.model.max_sequences = 16;
  return train::plan_job(job, jobs.machine()).plan.peaks[static_cast<size_t>(Tier::kDevice)].bytes;
}

}  // namespace

TEST_CASE("tile by tile, losses, gradients and trained weights are transformers' and peft's") {
  for (const char* model : {"qwen3", "gemma2", "phi3", "cohere", "arcee", "apertus"}) {
    CAPTURE(std::string(model));
    check_gradients(model, tiled({}));
    check_curve(model, tiled({}));
  }
  for (const char* adapter : {"adapter", "adapter_dora"}) {
    CAPTURE(std::string(adapter));
    check_gradients("qwen3", tiled({.adapter = adapter}));
    check_curve("qwen3", tiled({.adapter = adapter}));
  }
}

TEST_CASE("the first loss has the same bits in tiles as whole, with dropout too, and the rest differs by rounding") {
  const std::vector<TinySetup> setups = {{.dtype = DType::kBF16},
                                         {.adapter = "adapter", .dropout = 0.3, .noise = 5},
                                         {.adapter = "adapter_dora", .dropout = 0.3}};
  for (const TinySetup& setup : setups) {
    CAPTURE(setup.adapter);
    const TinyOutcome whole = tiled_outcome("qwen3", setup), tiles = tiled_outcome("qwen3", tiled(setup));
    CHECK(tiles.losses.front() == whole.losses.front());
    const double tolerance = setup.dtype == DType::kBF16 ? 1e-2 : 1e-5;
    for (size_t i = 0; i < whole.norms.size(); ++i)
      CHECK(tiles.norms[i] == doctest::Approx(whole.norms[i]).epsilon(tolerance));
  }
}

TEST_CASE("where tiles live, and in which order micro-batches go through them, changes no bit") {
  const LinearStorage nf4{quantised_storage({WeightCoding::kNf4, 64, true, DType::kBF16})};
  struct Case {
    const char* model;
    TinySetup setup;
  };
  const std::vector<Case> cases = {
      {"qwen3", tiled({.dtype = DType::kBF16})},
      {"gemma2", tiled({.adapter = "adapter", .dropout = 0.1})},
      {"llama2", tiled({.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .linear_storage = nf4})}};
  for (const auto& [model, setup] : cases) {
    CAPTURE(std::string(model));
    const TinyOutcome plain = tiled_outcome(model, setup);
    for (const char* lines : {"gradient_checkpointing: true\n", "activation_offloading: disk\nlayer_offloading: disk\n",
                              "parameter_offload: host\ngradient_offload: host\noptimizer_offload: disk\n"}) {
      CAPTURE(std::string(lines));
      CHECK(tiled_outcome(model, setup, lines) == plain);
    }
    TinySetup vertical = setup;
    vertical.micro_batches = 2;
    CHECK(tiled_outcome(model, vertical, "gradient_checkpointing: true\nlayer_offloading: host\n") == plain);
    vertical = setup;
    vertical.threads = 1;
    CHECK(tiled_outcome(model, vertical) == plain);
  }
}

TEST_CASE("the width of a feed-forward part counts for a tile of tokens instead of all") {
  const auto whole = static_cast<double>(device_bytes_in(1)), tiles = static_cast<double>(device_bytes_in(16));
  CHECK(tiles < 0.4 * whole);
}
