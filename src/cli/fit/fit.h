// Will it fit? Plans of one model under several ways of training and several sizes of device memory.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "plan/machine.h"
#include "plan/planner.h"

namespace spillway {

// A way of training, by the keys that make it.
struct FitMethod {
  std::string_view name;  // "lora"
  std::string_view keys;  // lines of YAML
};
inline constexpr std::array kFitMethods = {
    FitMethod{"full",
              "parameter_offload: auto\ngradient_offload: auto\noptimizer_offload: auto\nlearning_rate: 1e-5\n"},
    FitMethod{"lora", "adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\nlearning_rate: 2e-4\n"},
    FitMethod{"qlora",
              "adapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\n"
              "learning_rate: 2e-4\n"},
};
// Shares of the device memory that are planned for, and most rows of a micro-batch that are tried.
inline constexpr std::array kFitShares = {1.0, 0.75, 0.5, 0.25};
constexpr int64_t kMostFitRows = 8;

// What is asked: the same for all plans.
struct FitQuestion {
  std::string model_folder;  // holds config.json
  Machine machine;
  std::vector<config::ConfigOverride> overrides;  // of keys of the config, as typed
};

struct FitRow {
  std::string_view method;
  int64_t micro_batch_size = 1;
  Budget budget;
  bool fits = false;
  double step_seconds = 0, tokens_per_second = 0;    // predicted
  std::array<int64_t, kBudgetedTiers> peak_bytes{};  // by Tier
  std::array<int64_t, kBudgetedTiers> missing_bytes{};
  std::string title;  // of the job
};

// The text of a config, whole but for the rows that a user has.
[[nodiscard]] std::string fit_config(std::string_view base_model, const FitMethod& method, int64_t micro_batch_size);

// Hears which plan is looked for next: method, micro-batch and the budget of the device. Called by several threads.
using OnFitPlan = std::function<void(const FitRow& tried)>;

// Of each method, for each share of the device memory, the fastest plan and micro-batch; where the whole is too little,
// one row that says what is missing. The methods are planned beside each other, since a search is mostly one thread's.
// Throws InputError for what the overrides make wrong.
[[nodiscard]] std::vector<FitRow> fit_rows(const FitQuestion& question, std::span<const FitMethod> methods,
                                           const OnFitPlan& on_plan);

// The fastest that has the whole device; none where none fits.
[[nodiscard]] const FitRow* fastest(std::span<const FitRow> rows);

}  // namespace spillway
