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
// Shares of the device memory that are planned for.
inline constexpr std::array kFitShares = {1.0, 0.75, 0.5, 0.25};

// What models of a family are trained on, and how.
struct FitFamily {
  std::string rows;  // lines of YAML: where rows are, and how long
  int64_t rows_per_step = 1;
  int64_t max_rows = 1;   // of a micro-batch, that are tried
  std::string_view unit;  // "tokens": what a plan's speed counts
  std::span<const FitMethod> methods;
};
// By the folder's config.json: packed chats of 2,048 tokens, or clips of 81 frames of 480 x 832 pixels.
[[nodiscard]] FitFamily fit_family(const std::string& model_folder);

// What is asked: the same for all plans.
struct FitQuestion {
  std::string model_folder;  // holds config.json
  FitFamily family;
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
[[nodiscard]] std::string fit_config(std::string_view base_model, const FitFamily& family, const FitMethod& method,
                                     int64_t micro_batch_size);

// Hears which plan is looked for next: method, micro-batch and the budget of the device. Called by several threads.
using OnFitPlan = std::function<void(const FitRow& tried)>;

// Of each method, for each share of the device memory, the fastest plan and micro-batch; where the whole is too little,
// one row that says what is missing. The methods are planned beside each other, since a search is mostly one thread's.
// Throws InputError for what the overrides make wrong.
[[nodiscard]] std::vector<FitRow> fit_rows(const FitQuestion& question, std::span<const FitMethod> methods,
                                           const OnFitPlan& on_plan);

// Returns, of the rows that are as fast as the fastest (plan/search.h), the one that takes least host memory and disk;
// null if none fits.
[[nodiscard]] const FitRow* fastest(std::span<const FitRow> rows);

}  // namespace spillway
