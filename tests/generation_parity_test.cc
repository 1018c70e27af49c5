// Greedy generation of tiny models against transformers: tests/golden/models, made by tools/make_model_goldens.py. The
// longest continuations reach beyond every sliding window.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/index.h"
#include "infer/generation/generate.h"
#include "io/file.h"
#include "model/weights.h"
#include "plan/planner.h"
#include "runtime/executor.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using nlohmann::json;
using spillway::testing::kGoldenModels;
using spillway::testing::kTinyModels;

namespace {

// The programs of generation in f32, with prompts in pieces of at most two tokens.
class CachedModel {
 public:
  explicit CachedModel(const std::filesystem::path& folder)
      : model_(read_model(folder)),
        graphs_(infer::build_generation_graphs(*model_, {.dtype = DType::kF32},
                                               {.sequences = 2, .cache_rows = 128, .longest = 16, .prompt_tokens = 2})),
        decode_plan_(make_plan(graphs_.decode.graph, machine_, {}, {})),
        prompt_plan_(make_plan_beside(graphs_.decode.graph, decode_plan_.choices, graphs_.prompt.graph, machine_, {})),
        memory_(std::array<const Program*, 2>{&decode_plan_.program, &prompt_plan_.program}, pool_, {}),
        decode_(graphs_.decode.graph, decode_plan_.program, memory_),
        prompt_(graphs_.prompt.graph, prompt_plan_.program, memory_) {
    const ParameterTable& parameters = graphs_.decode.model.parameters;
    load_base_weights(parameters, open_model_weights(folder, parameters), decode_.values());
  }

  std::vector<infer::Generated> generate(std::span<const infer::Prompt> prompts) {
    return infer::generate({{graphs_.decode.graph, graphs_.decode.model, decode_},
                            {graphs_.prompt.graph, graphs_.prompt.model, prompt_},
                            graphs_.decode.choice,
                            pool_},
                           prompts, {.logprobs = true});
  }
  // The logits after the last prompt's last generated token.
  [[nodiscard]] std::span<const float> logits() const {
    return {decode_.result(0).as<float>(), static_cast<size_t>(model_->text()->vocab_size)};
  }

 private:
  ThreadPool pool_{2};
  Machine machine_{.threads = 2};
  ModelPtr model_;
  infer::GenerationGraphs graphs_;
  Plan decode_plan_, prompt_plan_;
  Memory memory_;
  Executor decode_, prompt_;
};

}  // namespace

TEST_CASE("greedy generation equals that of transformers, alone and beside other prompts") {
  std::vector<std::string> models(std::begin(kTinyModels), std::end(kTinyModels));
  models.insert(models.end(), {"gpt_oss_mxfp4", "qwen3_fp8", "qwen3_moe_fp8", "ministral3_fp8"});
  for (const std::string& model : models) {
    CAPTURE(model);
    const json golden = json::parse(read_file(kGoldenModels / model / "golden.json", 1 << 20))["greedy"];
    const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
    REQUIRE(prompt.size() == 3);
    const auto ids = golden["ids"].get<std::vector<int32_t>>();
    CachedModel cached(kGoldenModels / model);
    (void)cached.generate(std::array<infer::Prompt, 1>{{{prompt, {.max_new_tokens = 1}}}});
    for (size_t i = 0; i < cached.logits().size(); ++i)
      REQUIRE(cached.logits()[i] == doctest::Approx(golden["first_logits"][i].get<double>()).epsilon(1e-5));

    const infer::Prompt whole{prompt, {.max_new_tokens = std::ssize(ids)}};
    const std::vector<infer::Generated> alone = cached.generate(std::array<infer::Prompt, 1>{whole});
    CHECK(alone[0].ids == ids);
    // Beside others, some of which begin when another ends.
    const std::array<infer::Prompt, 4> prompts = {{{{5}, {.max_new_tokens = 3}},
                                                   {{7, 3, 9, 1, 4, 2, 8}, {.max_new_tokens = 5, .temperature = 1}},
                                                   whole,
                                                   {{1, 2}, {.max_new_tokens = 12}}}};
    const std::vector<infer::Generated> together = cached.generate(prompts);
    CHECK(together[2].ids == ids);
    CHECK(together[2].logprobs == alone[0].logprobs);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const infer::Generated one = cached.generate(std::span(prompts).subspan(i, 1))[0];
      CHECK(together[i].ids == one.ids);
      CHECK(together[i].logprobs == one.logprobs);
    }
  }
}

// Pearson's statistic over cells of at least five expected draws; the rest are one cell.
TEST_CASE(
    "drawn tokens pass a chi-square test against transformers' distribution, and follow it down to the likeliest") {
  constexpr double kTemperature = 0.8;
  constexpr int64_t kDraws = 2000;
  const auto golden = json::parse(read_file(kGoldenModels / "qwen3/golden.json", 1 << 20))["greedy"];
  const auto logits = golden["first_logits"].get<std::vector<double>>();
  const auto ids = golden["prompt"].get<std::vector<int32_t>>();
  CachedModel model(kGoldenModels / "qwen3");
  const auto draws_at = [&](double temperature, int64_t count) {
    std::vector<infer::Prompt> prompts;
    for (int64_t seed = 0; seed < count; ++seed)
      prompts.push_back({ids, {.max_new_tokens = 1, .temperature = temperature, .seed = static_cast<uint64_t>(seed)}});
    std::vector<double> counts(logits.size());
    for (const infer::Generated& one : model.generate(prompts)) ++nth(counts, one.ids[0]);
    return counts;
  };
  const std::vector<double> counts = draws_at(kTemperature, kDraws);
  double total = 0;
  for (const double logit : logits) total += std::exp(logit / kTemperature);
  double statistic = 0, cells = 0, rare_expected = 0, rare_counts = 0;
  const auto add_cell = [&](double expected, double count) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t id = 0; id < logits.size(); ++id) {
    const double expected = kDraws * std::exp(logits[id] / kTemperature) / total;
    if (expected >= 5) {
      add_cell(expected, counts[id]);
    } else {
      rare_expected += expected;
      rare_counts += counts[id];
    }
  }
  if (rare_expected > 0) add_cell(rare_expected, rare_counts);
  REQUIRE(cells > 10);
  const double freedom = cells - 1;
  CHECK(statistic < freedom + 4 * std::sqrt(2 * freedom));

  const auto likeliest = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  CHECK(draws_at(1e-4, 20)[likeliest] == 20);
}
