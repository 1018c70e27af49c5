// Greedy generation of tiny models against transformers: tests/golden/models, made by tools/make_model_goldens.py. The
// longest continuations reach beyond every sliding window.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "io/file.h"
#include "model/transformer.h"
#include "model/weights.h"
#include "plan/planner.h"
#include "runtime/executor.h"

using namespace spillway;
using nlohmann::json;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models";
constexpr const char* kModels[] = {"llama2", "llama32",    "llama_linear", "llama_bias", "mistral",
                                   "qwen2",  "qwen2_tied", "qwen3",        "qwen3_tied"};
constexpr int64_t kContext = 16;

// The decoder of generation, planned for pieces of at most two tokens, in f32.
class CachedModel {
 public:
  explicit CachedModel(const std::filesystem::path& folder) : config_(read_model_config(folder)) {
    Builder builder(graph_);
    decoder_ = build_cached_decoder(builder, config_, {.dtype = DType::kF32, .tokens = 2}, kContext);
    plan_ = make_plan(graph_, Machine{.threads = pool_.threads()}, {}, {});
    executor_.emplace(graph_, plan_.program, pool_);
    const ParameterTable& parameters = decoder_.parameters;
    load_base_weights(parameters, open_model_weights(folder, parameters), executor_->values());
  }

  // The logits after `ids`, which follow those of earlier calls.
  std::vector<float> feed(std::span<const int32_t> ids) {
    const auto count = static_cast<int64_t>(ids.size());
    executor_->set_tokens(count);
    std::copy(ids.begin(), ids.end(), executor_->home(decoder_.ids).as<int32_t>());
    auto* positions = executor_->home(decoder_.positions).as<int32_t>();
    std::iota(positions, positions + count, start_);
    *executor_->home(decoder_.start).as<int32_t>() = start_;
    *executor_->home(decoder_.last).as<int32_t>() = static_cast<int32_t>(count) - 1;
    executor_->run(0);
    start_ += static_cast<int32_t>(count);
    const auto* logits = executor_->result(0).as<float>();
    return {logits, logits + config_.vocab_size};
  }

 private:
  ThreadPool pool_{2};
  ModelConfig config_;
  Graph graph_;
  CachedDecoder decoder_;
  Plan plan_;
  std::optional<Executor> executor_;
  int32_t start_ = 0;
};

}  // namespace

TEST_CASE("greedy generation through the cache equals that of transformers") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    const json golden = json::parse(read_file(kGolden / model / "golden.json", 1 << 20))["greedy"];
    const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
    REQUIRE(prompt.size() == 3);
    CachedModel cached(kGolden / model);
    (void)cached.feed(std::span(prompt).first(2));
    std::vector<float> logits = cached.feed(std::span(prompt).subspan(2));
    for (size_t i = 0; i < logits.size(); ++i) {
      REQUIRE(logits[i] == doctest::Approx(golden["first_logits"][i].get<double>()).epsilon(1e-5));
    }
    std::vector<int32_t> ids;
    while (ids.size() < golden["ids"].size()) {
      ids.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      logits = cached.feed(std::span(ids).last(1));
    }
    CHECK(ids == golden["ids"].get<std::vector<int32_t>>());
  }
}
