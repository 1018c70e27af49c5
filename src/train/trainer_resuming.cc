// The parts of a trainer that go on from a checkpoint.
#include "base/log.h"
#include "train/trainer.h"

namespace spillway::train {
namespace {

bool has_other_steps(const EpochSize& a, const EpochSize& b) {
  return a.batch_lines != b.batch_lines || a.step_batches != b.step_batches;
}

bool has_same_batches(const EpochSize& a, const EpochSize& b) {
  return !has_other_steps(a, b) && a.drops_last == b.drops_last;
}

}  // namespace

// Returns the size of batches with which the checkpoint was written; without one, that of the job.
EpochSize Trainer::size_before() const {
  EpochSize size = length_.epoch;
  if (!from_ || !data_->counts_rows()) return size;
  take_batches(from_->position.settings, size);
  size.change = from_->position.change;
  return size;
}

// Begins batches of the job's size behind the last row that the checkpoint has trained on, and counts the steps to come
// anew.
void Trainer::change_batches(const EpochSize& before) {
  EpochSize& now = length_.epoch;
  if (before.steps() == 0) return;  // of other rows, which is refused
  now.change = has_same_batches(before, now) ? before.change : before.change_at(from_->position.step);
  if (!now.change) return;
  length_.total_steps = total_steps(job_.config.schedule, now);
  if (now.change->line == 0) {  // of an epoch that has not begun
    now.change->order_lines = now.batch_lines;
    now.change->order_batches = now.step_batches;
  }
  check_scores();
}

// Scores that were made before training belong to the micro-batches of whole epochs where a row's depend on the others
// of its micro-batch, as those of KTO's KL estimate do.
void Trainer::check_scores() const {
  const EpochSize& now = length_.epoch;
  if (!job_.graph.reference.is_precomputed || job_.graph.objective->streams() == 1) return;
  if (!now.place(from_->position.step).is_in_rest || now.change->line % now.batch_lines == 0) return;
  throw input_error("micro_batch_size",
                    "expected a divisor of the {} rows that epoch {} has trained on, beside precompute_ref_log_probs, "
                    "got {}; set another size, or precompute_ref_log_probs: false",
                    now.change->line, now.change->epoch + 1, now.batch_lines);
}

void Trainer::say_change(const EpochSize& before) const {
  const EpochSize& now = length_.epoch;
  if (!has_other_steps(before, now)) return;
  log_info(
      "a step had {} x {} {} in {}, and has {} x {} from here on: the run goes on behind {} of the {} of epoch {}, so "
      "that none is left out or comes twice, at step {} of now {}",
      before.step_batches, before.batch_lines, job_.config.data.batches.packing ? "lines" : "rows",
      from_->folder.string(), now.step_batches, now.batch_lines, now.change->line, now.lines, now.change->epoch + 1,
      position_.step, length_.total_steps);
}

void Trainer::go_on_from(const TrainingPosition& position, const EpochSize& before) {
  TrainingPosition expected = position_;
  if (has_other_steps(before, length_.epoch))  // which say_change() tells
    for (const char* key : {"micro_batch_size", "gradient_accumulation_steps"}) expected.settings.erase(key);
  check_checkpoint(*from_, expected, length_.total_steps);
  position_.steps_per_epoch = position.stream ? 0 : length_.epoch.steps();
  position_.change = length_.epoch.change;
  position_.step = position.step;
  say_change(before);
  position_.num_tokens = position.num_tokens;
  position_.stream = position.stream;
  position_.merged = position.merged;
  position_.feed = position.feed;
  if (position.stopping) stopping_.restore(*position.stopping);
  // Versions that did not record it evaluated before they saved, except at a last step without a due evaluation.
  const int64_t every = evaluation_interval();
  position_.is_evaluated = position.is_evaluated.value_or(every > 0 && position.step % every == 0);
}

void Trainer::load_checkpoint() {
  if (!from_) return;
  train::load_checkpoint(*from_, job_, session_.training(), session_.store());
  keep_base_of(*from_);
  position_.feed.round = load_round(*from_);
  if (position_.step == length_.total_steps) {
    log_info("{} is at the last of {} steps: nothing is left to train", from_->folder.string(), position_.step);
  } else {
    log_info("going on from {} (step {} of {})", from_->folder.string(), position_.step, length_.total_steps);
  }
  earlier_output_ = from_->folder.parent_path();
  from_.reset();
}

}  // namespace spillway::train
