// Checkpoints and evaluations: after how many steps, and what follows from an evaluation.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/ranges.h>

#include "config/programs.h"
#include "config/resolve.h"
#include "config/values.h"
#include "hub/repository.h"

namespace spillway::config {
namespace {

// The three keys of saving, and of evaluating.
struct IntervalKeys {
  std::string_view what;  // "save"
  std::optional<double> steps;
  std::optional<int64_t> per_epoch;
  std::optional<SaveStrategy> strategy;
  double steps_by_default;  // of the strategy `steps` without a number
};

// Transformers has both keys in every config, and reads the steps where the strategy asks for them.
void ignore_steps_of_trl(const Resolution& r, IntervalKeys& keys) {
  if (program_of(r.loaded) != Program::kTrl || !keys.strategy || *keys.strategy == SaveStrategy::kSteps) return;
  if (!keys.steps) return;
  r.ignore(fmt::format("{}_steps", keys.what),
           fmt::format("{}_strategy {} does not read it", keys.what, print_value(*keys.strategy)));
  keys.steps.reset();
}

void check_interval(const Resolution& r, const IntervalKeys& keys) {
  const std::string steps_key = fmt::format("{}_steps", keys.what),
                    strategy_key = fmt::format("{}_strategy", keys.what);
  const std::string per_epoch_key = fmt::format("{}s_per_epoch", keys.what);
  const bool has_steps = keys.steps.has_value(), has_per_epoch = keys.per_epoch.value_or(0) > 0;
  r.exclude(steps_key, has_steps, per_epoch_key, has_per_epoch);
  if (!keys.strategy || *keys.strategy == SaveStrategy::kSteps) return;
  for (const auto& [key, is_set] : {std::pair{steps_key, has_steps}, {per_epoch_key, has_per_epoch}}) {
    if (!is_set) continue;
    throw input_error(r.where(strategy_key), "expected steps beside {}, got {}; remove one of them", key,
                      print_value(*keys.strategy));
  }
}

// Without any key it is every epoch, as in axolotl.
Interval interval_of(const IntervalKeys& keys) {
  using enum Interval::Kind;
  if (keys.strategy == SaveStrategy::kNo || keys.per_epoch == 0) return {.kind = kNever};
  if (keys.strategy == SaveStrategy::kBest) return {.kind = kBest};
  if (keys.steps) return {.kind = kSteps, .step_count = StepCount::from_key(*keys.steps)};
  if (keys.per_epoch) return {.kind = kPerEpoch, .per_epoch = *keys.per_epoch};
  if (keys.strategy == SaveStrategy::kSteps)
    return {.kind = kSteps, .step_count = StepCount::from_key(keys.steps_by_default)};
  return {};
}

std::optional<SaveStrategy> as_save_strategy(std::optional<IntervalStrategy> strategy) {
  if (!strategy) return {};
  if (*strategy == IntervalStrategy::kNo) return SaveStrategy::kNo;
  return *strategy == IntervalStrategy::kSteps ? SaveStrategy::kSteps : SaveStrategy::kEpoch;
}

// A strategy asks for an evaluation; how often alone does not, of axolotl's keys or transformers'.
void check_evaluation(const Resolution& r, bool has_rows) {
  const Spelled& keys = r.keys;
  const bool says_none = r.given("val_set_size");
  const bool strategy = keys.eval_strategy && *keys.eval_strategy != IntervalStrategy::kNo;
  if (!has_rows && (strategy || (says_none && keys.eval_steps))) {
    throw input_error(r.where(keys.eval_steps ? "eval_steps" : "eval_strategy"),
                      "expected rows to evaluate on, got {}; set val_set_size or test_datasets",
                      says_none ? "val_set_size 0" : "none");
  }
  if (!has_rows) {
    constexpr const char* kWhy = "there are no rows to evaluate on: set val_set_size or test_datasets";
    if (keys.eval_steps) r.ignore("eval_steps", kWhy);
    if (keys.evals_per_epoch.value_or(0) > 0) r.ignore("evals_per_epoch", kWhy);
    if (keys.evaluates_first) r.ignore("eval_on_start", kWhy);
    if (keys.eval_delay > 0) r.ignore("eval_delay", kWhy);
  }
  r.exclude("val_set_size", keys.val_set_size > 0, "test_datasets", !keys.test_datasets.empty());
  r.check_whole("val_set_size", keys.val_set_size);
}

// Returns true if every checkpoint stands where an evaluation was, as far as the config alone says it; the trainer,
// which knows the steps of an epoch, checks the rest.
bool is_multiple(const Interval& save, const Interval& evaluate) {
  if (save.kind != evaluate.kind) return false;
  if (save.kind == Interval::Kind::kPerEpoch) return evaluate.per_epoch % save.per_epoch == 0;
  if (save.step_count.is_share != evaluate.step_count.is_share) return false;
  const double times = save.step_count.value / evaluate.step_count.value;
  constexpr double kRounding = 1e-9;
  return std::abs(times - std::round(times)) <= kRounding * times && times >= 0.5;
}

// `key` is what asks for the best evaluation.
void check_best(const Resolution& r, std::string_view key, const OutputSettings& output, bool has_rows) {
  using enum Interval::Kind;
  if (!has_rows)
    throw input_error(r.where(key), "expected rows to evaluate on, got none; set val_set_size or test_datasets");
  if (output.evaluate.kind == kNever)
    throw input_error(r.where(key), "expected evaluations, got eval_strategy no; set eval_steps or evals_per_epoch");
}

void check_loaded(const Resolution& r, std::string_view key, const OutputSettings& output) {
  using enum Interval::Kind;
  if (output.save.kind == kNever)
    throw input_error(r.where(key),
                      "expected checkpoints to choose from, got save_strategy no; set save_steps or "
                      "save_strategy: best");
  if (output.save.kind != kBest && !is_multiple(output.save, output.evaluate))
    throw input_error(r.where(key),
                      "expected checkpoints at steps of an evaluation, got other steps; set eval_steps, and save_steps "
                      "to a multiple of it (or evals_per_epoch to one of saves_per_epoch, or save_strategy: best)");
}

BestSettings resolve_best(const Resolution& r, const OutputSettings& output, bool has_rows) {
  const Spelled& keys = r.keys;
  BestSettings best;
  if (!keys.metric_for_best_model.empty()) best.metric = keys.metric_for_best_model;
  constexpr std::string_view kPrefix = "eval_";
  if (best.metric.starts_with(kPrefix)) best.metric.erase(0, kPrefix.size());
  best.greater_is_better = keys.greater_is_better.value_or(!best.metric.ends_with("loss"));
  if (best.metric.ends_with("perplexity") && !keys.greater_is_better)
    r.note(
        fmt::format("warning: metric_for_best_model: {}: the highest one counts as the best, as in transformers; set "
                    "greater_is_better: false",
                    keys.metric_for_best_model));
  if (keys.early_stopping_patience.value_or(0) > 0) best.patience = keys.early_stopping_patience;
  // In axolotl, too, a run that stops early ends with the best weights.
  best.is_loaded = keys.load_best_model_at_end.value_or(best.patience.has_value());
  best.is_kept = best.is_loaded || best.patience || !keys.metric_for_best_model.empty() ||
                 output.save.kind == Interval::Kind::kBest;
  if (!best.is_kept) {
    if (keys.greater_is_better) r.ignore("greater_is_better", "nothing asks for the best evaluation");
    return best;
  }
  const std::string_view key = best.patience                         ? "early_stopping_patience"
                               : best.is_loaded                      ? "load_best_model_at_end"
                               : !keys.metric_for_best_model.empty() ? "metric_for_best_model"
                                                                     : "save_strategy";
  check_best(r, key, output, has_rows);
  if (best.is_loaded) check_loaded(r, key, output);
  return best;
}

std::optional<LossWatchdog> resolve_watchdog(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.loss_watchdog_threshold)
    return LossWatchdog{*keys.loss_watchdog_threshold, keys.loss_watchdog_patience.value_or(LossWatchdog{}.patience)};
  if (keys.loss_watchdog_patience) r.ignore("loss_watchdog_patience", "it belongs to loss_watchdog_threshold");
  return {};
}

// A name on the hub says that results are to go there only beside push_to_hub, as in transformers.
std::optional<HubSettings> resolve_hub(const Resolution& r) {
  const Spelled& keys = r.keys;
  constexpr size_t kLeastLetters = 8;
  const bool is_token =
      std::all_of(keys.hub_token.begin(), keys.hub_token.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!keys.hub_token.empty() && (keys.hub_token.size() < kLeastLetters || !is_token))
    throw input_error(r.where("hub_token"), "expected a token (hf_...), got something else; write HF_TOKEN");
  if (!keys.push_to_hub) {
    for (const char* key :
         {"hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push", "hub_revision", "hub_token"})
      r.ignore(key, "nothing leaves this machine without push_to_hub: true");
    return {};
  }
  // The last part of "runs/model/" is empty.
  const std::string name =
      (std::filesystem::path(keys.output_dir) / "").lexically_normal().parent_path().filename().string();
  HubSettings hub{.id = keys.hub_model_id.empty() ? name : keys.hub_model_id,
                  .revision = keys.hub_revision,
                  .strategy = keys.hub_strategy,
                  .is_private = keys.hub_private_repo,
                  .waits = keys.hub_always_push,
                  .token = keys.hub_token};
  const std::optional<hub::Repository> repository = hub::repository_named(hub.id);
  if (!repository || !repository->revision.empty())
    throw input_error(r.where("hub_model_id"), "expected a name on the hub such as org/name, got {}; {}", quote(hub.id),
                      keys.hub_model_id.empty() ? "write hub_model_id" : "correct it");
  if (!hub.revision.empty() && !hub::is_revision(hub.revision))
    throw input_error(r.where("hub_revision"), "expected a branch, got {}; correct it", quote(hub.revision));
  return hub;
}

}  // namespace

OutputSettings resolve_output(const Resolution& r, const data::DataSettings& data) {
  const Spelled& keys = r.keys;
  IntervalKeys save{"save", keys.save_steps, keys.saves_per_epoch, keys.save_strategy, 500};
  IntervalKeys eval{"eval", keys.eval_steps, keys.evals_per_epoch, as_save_strategy(keys.eval_strategy),
                    keys.logging_steps};
  for (IntervalKeys* one : {&save, &eval}) ignore_steps_of_trl(r, *one);
  check_interval(r, save);
  check_interval(r, eval);
  r.check_whole("save_steps", keys.save_steps);
  r.check_whole("eval_steps", keys.eval_steps);
  r.check_whole("logging_steps", keys.logging_steps);
  const bool has_rows = data.val_set_size > 0 || !data.test_datasets.empty();
  check_evaluation(r, has_rows);
  if (keys.output_dir.empty()) throw input_error(r.where("output_dir"), "expected a folder, got nothing; name one");

  OutputSettings output{keys, StepCount::from_key(keys.logging_steps), interval_of(save), interval_of(eval)};
  output.tensorboard = resolve_trackers(r);
  output.best = resolve_best(r, output, has_rows);
  output.loss_watchdog = resolve_watchdog(r);
  output.hub = resolve_hub(r);
  if (!has_rows) output.evaluate = {.kind = Interval::Kind::kNever};
  // FastVideo's word for the last one.
  if (keys.resume_from_checkpoint == "latest") {
    output.auto_resume_from_checkpoints = true;
    output.resume_from_checkpoint.clear();
  }
  // Written as a boolean it says whether to resume, not from where.
  if (const auto resume = boolean_of(YamlNode::scalar(keys.resume_from_checkpoint))) {
    if (*resume && r.given("auto_resume_from_checkpoints") && !keys.auto_resume_from_checkpoints)
      throw input_error(r.where("resume_from_checkpoint"),
                        "expected false beside auto_resume_from_checkpoints: false, got true; remove one");
    output.auto_resume_from_checkpoints = output.auto_resume_from_checkpoints || *resume;
    output.resume_from_checkpoint.clear();
  }
  return output;
}

SampleSettings resolve_samples(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.sample_prompts.empty()) r.ignore("sample_max_new_tokens", "there are no sample_prompts");
  return {.every_steps = keys.sample_every_steps.value_or(0),
          .prompts = keys.sample_prompts,
          .max_new_tokens = keys.sample_max_new_tokens};
}

}  // namespace spillway::config
