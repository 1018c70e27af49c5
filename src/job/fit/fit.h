// Answers which ways of training fit: plans one model with several methods and several sizes of device memory.
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

// A training method, defined by config keys.
struct FitMethod {
  std::string_view name;  // "lora"
  std::string_view keys;  // lines of YAML
  bool decodes = false;   // beside them, weights that the files hold in codes of their own are decoded
};
// The shares of the device memory for which plans are made.
inline constexpr std::array kFitShares = {1.0, 0.75, 0.5, 0.25};

// The training data and methods of a family of models.
struct FitFamily {
  std::string rows;  // lines of YAML: where rows are, and how long
  int64_t rows_per_step = 1;
  int64_t max_rows = 1;   // of a micro-batch, that are tried
  std::string_view unit;  // "tokens": what a plan's speed counts
  std::span<const FitMethod> methods;
};
// Returns the family by the folder's config.json: packed chats of 2,048 tokens, or clips of 81 frames of 480 x 832
// pixels.
[[nodiscard]] FitFamily fit_family(const std::string& model_folder);

// The question, common to all plans.
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

// Returns the text of a config, complete except for the user's rows.
[[nodiscard]] std::string fit_config(std::string_view base_model, const FitFamily& family, const FitMethod& method,
                                     int64_t micro_batch_size);

// Called before each plan with its method, micro-batch and device budget, by several threads.
using OnFitPlan = std::function<void(const FitRow& tried)>;
// Called by the caller's thread with each row, in order, once its method is answered.
using OnFitRow = std::function<void(const FitRow& row)>;

// Returns for each method and each share of the device memory the fastest plan and micro-batch; if even the whole
// memory is too small, one row that says what is missing. The searches are quick ones (plan/series_planner.h), and
// micro-batches are planned only where forecasts let them win. Plans the methods in parallel, since a search uses one
// thread. Throws InputError for invalid overrides.
[[nodiscard]] std::vector<FitRow> fit_rows(const FitQuestion& question, std::span<const FitMethod> methods,
                                           const OnFitPlan& on_plan, const OnFitRow& on_row);

// Returns the row that takes least host memory and disk among those that are as fast as the fastest (plan/search.h);
// null if none fits.
[[nodiscard]] const FitRow* fastest(std::span<const FitRow> rows);

}  // namespace spillway
