// Writes what a run leaves behind: checkpoints, the result, and the facts beside them; and brings the best checkpoint
// back.
#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "io/file.h"
#include "job/adapter_restart.h"
#include "saved/merged_base.h"
#include "train/trainer.h"

namespace spillway::train {

void Trainer::save(SaveReason reason, CheckpointContent content) {
  evaluator_.check_has_trained_weights(position_.step);
  if (listeners_.before_checkpoint) listeners_.before_checkpoint();
  if (reason == SaveReason::kDue) stopping_.add_checkpoint(position_.step);
  position_.stopping = stopping_.state();
  std::filesystem::path folder;
  first_with_parts(
      [&] { folder = save_checkpoint(job_.config.output.output_dir, position_, model(), facts(), content); });
  if (listeners_.checkpoint && reason == SaveReason::kDue) listeners_.checkpoint(folder, position_.step);
  ranks_.first([&] { remove_old(); });
}

// Writes the model or the adapter. If that fails, saves a checkpoint instead; weights of an earlier step have one
// already.
void Trainer::save_result(const TrainingOutcome& outcome) {
  const std::filesystem::path output = job_.config.output.output_dir;
  try {
    first_with_parts([&] { (void)train::save_result(output, model(), facts()); });
    if (!merged_base_.empty()) ranks_.first([&] { remove_folder(output / kMergedBase); });
  } catch (...) {
    if (outcome.loaded_step == 0 && !find_checkpoint(output, position_.run, position_.step)) try_to_save();
    throw;
  }
}

// Merges the adapter of a job that restarts it into the base, and begins it anew. Until the merged base is whole
// nothing has changed, so that an error leaves a checkpoint of what was trained.
void Trainer::restart_adapter_if_due() {
  if (!job_.config.adapter || !job_.config.adapter->restarts) return;
  if (position_.step == 0 || !is_due(job_.config.schedule.restarts->steps)) return;
  const std::filesystem::path output = job_.config.output.output_dir;
  try {
    first_with_parts([&] { (void)write_merged_base(output, model()); });
  } catch (...) {
    try_to_save();
    throw;
  }
  merged_base_ = output / kMergedBase;
  const SafetensorsFolder merged = open_weights(merged_base_);
  train::restart_adapter(job_, session_.training(), merged, position_.step, session_.store());
  position_.merged = {.step = position_.step, .weights = identify_base(merged)};
  log_info("step {}: the adapter is merged into its base and begins anew", position_.step);
}

// Makes the base of a checkpoint that was loaded that of the run. The checkpoint may be removed while the run goes on.
void Trainer::keep_base_of(const CheckpointRecord& checkpoint) {
  position_.merged = checkpoint.position.merged;
  merged_base_.clear();
  if (position_.merged.step == 0) return;
  merged_base_ = std::filesystem::path(job_.config.output.output_dir) / kMergedBase;
  ranks_.first([&] {
    AtomicFolder own(merged_base_, "train");
    link_merged_base(checkpoint.folder / kMergedBase, own.path());
    own.publish();
  });
}

void Trainer::remove_old() const {
  const config::OutputSettings& output = job_.config.output;
  const int64_t best = output.best.is_kept ? stopping_.state().best_saved.step : 0;
  remove_old_checkpoints(output.output_dir, position_.run, output.save_total_limit.value_or(0), best);
}

TrainedFacts Trainer::facts() const {
  TrainedFacts facts = facts_;
  facts.steps = position_.step;
  facts.total_steps = length_.total_steps;
  facts.epochs = length_.epoch.epochs_after(position_.step);
  facts.tokens = position_.num_tokens;
  facts.unit = job_.kind->unit();
  facts.metric = stopping_.state().metric;
  facts.best = stopping_.state().best;
  facts.settings = position_.settings;
  const std::array<int64_t, kTiers> measured = session_.measured_peak_bytes();
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    const int64_t planned = peak_bytes(session_.planned(), static_cast<Tier>(i));
    if (planned == 0) continue;
    const bool has_trained = facts.loss.has_value();
    facts.tiers.push_back({.name = std::string(name_of(static_cast<Tier>(i))),
                           .planned_bytes = planned,
                           .measured_bytes = has_trained ? std::optional(measured[i]) : std::nullopt});
  }
  return facts;
}

// If the best checkpoint was removed or damaged, the current weights are kept.
void Trainer::load_best(TrainingOutcome& outcome) {
  const int64_t step = stopping_.step_to_load(position_.step);
  if (step == 0) return;
  const std::string metric = stopping_.state().metric;
  std::optional<CheckpointRecord> record = find_checkpoint(job_.config.output.output_dir, position_.run, step);
  // A run that goes on in another folder has those of before in the one that it comes from.
  if (!record && !earlier_output_.empty()) record = find_checkpoint(earlier_output_, position_.run, step);
  if (!record) {
    log_warning("the checkpoint of step {}, with the best {}, is not there any more; the last weights stay", step,
                metric);
    return;
  }
  try {
    ranks_.agree([&] { verify_checkpoint(*record, job_); });  // before any weight is replaced
  } catch (const std::runtime_error& error) {
    log_warning("{}; the last weights stay, and not those of step {} with the best {}", error.what(), step, metric);
    return;
  }
  ranks_.agree([&] { train::load_checkpoint(*record, job_, session_.training(), session_.store()); });
  keep_base_of(*record);
  outcome.loaded_step = facts_.loaded_step = step;
  log_info("the weights are those of step {}: of the checkpoints it has the best {}, {:.6g}", step, metric,
           stopping_.state().best_saved.value);
}

}  // namespace spillway::train
