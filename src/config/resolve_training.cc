// The steps of a run: how many, at which rate, by which rule; and what happens after how many of them.
#include <algorithm>

#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

// The three keys of saving, and of evaluating.
struct IntervalKeys {
  std::string_view what;  // "save"
  std::optional<double> steps;
  std::optional<int64_t> per_epoch;
  std::optional<IntervalStrategy> strategy;
  double steps_by_default;  // of the strategy `steps` without a number
};

void check_interval(const Resolution& r, const IntervalKeys& keys) {
  const std::string steps_key = fmt::format("{}_steps", keys.what),
                    strategy_key = fmt::format("{}_strategy", keys.what);
  const std::string per_epoch_key = fmt::format("{}s_per_epoch", keys.what);
  const bool has_steps = keys.steps.has_value(), has_per_epoch = keys.per_epoch.value_or(0) > 0;
  r.exclude(steps_key, has_steps, per_epoch_key, has_per_epoch);
  if (!keys.strategy || *keys.strategy == IntervalStrategy::kSteps) return;
  for (const auto& [key, is_set] : {std::pair{steps_key, has_steps}, {per_epoch_key, has_per_epoch}}) {
    if (!is_set) continue;
    throw input_error(r.where(strategy_key), "expected steps beside {}, got {}; remove one of them", key,
                      *keys.strategy == IntervalStrategy::kNo ? "no" : "epoch");
  }
}

// Without any key it is every epoch, as in axolotl.
Interval interval_of(const IntervalKeys& keys) {
  using enum Interval::Kind;
  if (keys.strategy == IntervalStrategy::kNo || keys.per_epoch == 0) return {.kind = kNever};
  if (keys.steps) return {.kind = kSteps, .step_count = StepCount::from_key(*keys.steps)};
  if (keys.per_epoch) return {.kind = kPerEpoch, .per_epoch = *keys.per_epoch};
  if (keys.strategy == IntervalStrategy::kSteps)
    return {.kind = kSteps, .step_count = StepCount::from_key(keys.steps_by_default)};
  return {};
}

void check_evaluation(const Resolution& r) {
  const Spelled& keys = r.keys;
  const bool no_rows = r.given("val_set_size") && keys.val_set_size == 0 && keys.test_datasets.empty();
  const bool strategy = keys.eval_strategy && *keys.eval_strategy != IntervalStrategy::kNo;
  if (no_rows && (keys.eval_steps || strategy)) {
    throw input_error(r.where(keys.eval_steps ? "eval_steps" : "eval_strategy"),
                      "expected rows to evaluate on, got val_set_size 0; set val_set_size or test_datasets");
  }
  r.exclude("val_set_size", keys.val_set_size > 0, "test_datasets", !keys.test_datasets.empty());
  r.check_whole("val_set_size", keys.val_set_size);
}

StepCount warmup_of(const Resolution& r) {
  const Spelled& keys = r.keys;
  const double ratio = keys.warmup_ratio.value_or(0);
  r.exclude("warmup_steps", keys.warmup_steps.value_or(0) > 0, "warmup_ratio", ratio > 0);
  // The plain constant schedule of transformers knows no warmup.
  if (keys.lr_scheduler == LrScheduler::kConstant) {
    for (const char* key : {"warmup_steps", "warmup_ratio"}) r.ignore(key, "the constant schedule has no warmup");
    return {};
  }
  r.check_whole("warmup_steps", keys.warmup_steps);
  if (keys.warmup_steps.value_or(0) > 0) return StepCount::from_key(*keys.warmup_steps);
  return {.value = ratio, .is_share = true};
}

}  // namespace

ScheduleSettings resolve_schedule(const Resolution& r) {
  const Spelled& keys = r.keys;
  ScheduleSettings schedule{.num_epochs = keys.num_epochs,
                            .learning_rate = keys.learning_rate,
                            .lr_scheduler = keys.lr_scheduler,
                            .warmup = warmup_of(r)};
  if (keys.max_steps.value_or(0) > 0) schedule.max_steps = keys.max_steps;
  return schedule;
}

OptimizerSettings resolve_optimizer(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.optimizer.name != "came") {
    for (const char* key : {"adam_beta3", "adam_epsilon2"}) r.ignore(key, "CAME alone reads it");
  }
  return {.optimizer = {keys.optimizer.name},
          .args = keys.optim_args,
          .weight_decay = keys.weight_decay,
          .adam_beta1 = keys.adam_beta1,
          .adam_beta2 = keys.adam_beta2,
          .adam_beta3 = keys.adam_beta3,
          .adam_epsilon = keys.adam_epsilon,
          .adam_epsilon2 = keys.adam_epsilon2,
          .max_grad_norm = keys.max_grad_norm};
}

OutputSettings resolve_output(const Resolution& r) {
  const Spelled& keys = r.keys;
  const IntervalKeys save{"save", keys.save_steps, keys.saves_per_epoch, keys.save_strategy, 500};
  const IntervalKeys eval{"eval", keys.eval_steps, keys.evals_per_epoch, keys.eval_strategy, keys.logging_steps};
  check_interval(r, save);
  check_interval(r, eval);
  r.check_whole("save_steps", keys.save_steps);
  r.check_whole("eval_steps", keys.eval_steps);
  r.check_whole("logging_steps", keys.logging_steps);
  check_evaluation(r);
  if (keys.output_dir.empty()) throw input_error(r.where("output_dir"), "expected a folder, got nothing; name one");

  OutputSettings output{.output_dir = keys.output_dir,
                        .logging_steps = std::max<int64_t>(1, static_cast<int64_t>(keys.logging_steps)),
                        .save = interval_of(save),
                        .evaluate = interval_of(eval),
                        .evaluates_first = keys.eval_on_start,
                        .save_total_limit = keys.save_total_limit,
                        .auto_resume_from_checkpoints = keys.auto_resume_from_checkpoints,
                        .resume_from_checkpoint = keys.resume_from_checkpoint,
                        .metrics = keys.metrics};
  if (keys.test_datasets.empty() && keys.val_set_size == 0) output.evaluate = {.kind = Interval::Kind::kNever};
  // Written as a boolean it says whether to resume, not from where.
  if (const auto resume = boolean_of(YamlNode::scalar(keys.resume_from_checkpoint))) {
    output.auto_resume_from_checkpoints = output.auto_resume_from_checkpoints || *resume;
    output.resume_from_checkpoint.clear();
  }
  return output;
}

SampleSettings resolve_samples(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.sample_every_steps && keys.sample_prompts.empty())
    throw input_error(r.where("sample_every_steps"), "expected prompts to answer, got none; set sample_prompts");
  return {.every_steps = keys.sample_every_steps.value_or(0),
          .prompts = keys.sample_prompts,
          .max_new_tokens = keys.sample_max_new_tokens};
}

}  // namespace spillway::config
