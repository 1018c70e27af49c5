#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/sizes.h"
#include "io/file.h"
#include "model/token_ids.h"
#include "saved/output_room.h"
#include "train/reference_sync.h"

namespace spillway::train {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<config::ReferenceSync> reference_sync(const config::Config& config) {
  if (config.online) return config.online->sync;
  return config.preference ? config.preference->sync : std::nullopt;
}

// Throws InputError for a loss or norm that is not finite. Weights with NaN do not recover, and continuing would
// replace good checkpoints. An infinite norm clips every gradient to zero or to NaN. `origin`: where that began in the
// model, if it is known.
void check_finite(const StepRecord& record, const std::string& origin) {
  if (std::isfinite(record.loss) && std::isfinite(record.grad_norm)) return;
  throw input_error(fmt::format("step {}", record.step),
                    "expected a loss and gradients that are finite, got {}; lower learning_rate or look at the data, "
                    "then go on from an earlier checkpoint",
                    origin.empty() ? "NaN or infinity" : origin);
}

// Returns the tokens that end answers: those that the rows teach, those of the adapter that training starts from, and
// those at which rollouts end.
std::vector<int32_t> ends_of_run(const Job& job, const TrainingData& data) {
  std::vector<int32_t> ends = data.ends;
  const auto add = [&ends](std::span<const int32_t> more) { ends.insert(ends.end(), more.begin(), more.end()); };
  if (job.config.adapter && !job.config.adapter->model_dir.empty()) add(listed_ends(job.config.adapter->model_dir));
  add(job.kind->stop_ids());
  return ends;
}

}  // namespace

Trainer::Trainer(const Job& job, TrainingSession& session, const TrainingData& data, RunStart start, BaseIdentity base,
                 TrainingListeners listeners, MakeRounds make_rounds, Ranks* ranks)
    : job_(job),
      session_(session),
      listeners_(std::move(listeners)),
      ends_(ends_of_run(job, data)),
      base_files_(read_base_files(job, ends_)),
      data_(make_run_data(job, data, {listeners_.packing, listeners_.round, listeners_.sample, listeners_.clips},
                          std::move(make_rounds))),
      ranks_(ranks != nullptr ? *ranks : alone_),
      evaluator_(job, session, *data_, ranks_),
      stopping_(job.config.output),
      draws_(layer_draws(job)),
      from_(std::move(start.checkpoint)) {
  data_->check();
  length_ = data_->length();
  if (length_.epoch.micro_batches() == 0)
    throw input_error("dataloader_drop_last",
                      "expected rows for a whole micro-batch of {}, got fewer; lower micro_batch_size, or remove it",
                      job.config.batches.micro_batch_size);
  const EpochSize before = size_before();
  if (from_) change_batches(before);
  check_intervals();
  learning_rate_.emplace(job.config.schedule, length_.total_steps);
  data_->identify(before.steps(), position_);
  position_.run = std::move(start.run);
  position_.base = std::move(base);
  position_.settings = settings_of(job, length_);
  position_.reward_models = identify_reward_models(job);
  if (from_) go_on_from(from_->position, before);
  check_room();
}

void Trainer::check_room() const {
  const config::OutputSettings& output = job_.config.output;
  const int64_t model = result_bytes(job_, base_files_, session_.training());
  const int64_t kept = std::ssize(find_checkpoints(output.output_dir));
  const int64_t ahead = output.save.kind == config::Interval::Kind::kPerEpoch ? length_.epoch.even_step(0) : 0;
  const int64_t checkpoints =
      checkpoints_to_come(output, position_.step + ahead, length_.total_steps + ahead, length_.epoch.steps(), kept);
  const int64_t state = output.saves_only_model ? 0 : state_bytes(session_.training());
  // Checkpoints have the merged base of an adapter that restarts, and between two restarts the same one.
  train::check_room(output.output_dir, {model, model + state}, checkpoints);
}

int64_t Trainer::evaluation_interval() const {
  return job_.config.output.evaluate.steps(length_.total_steps, length_.epoch.steps());
}

// Throws InputError for intervals that do not fit together. Some are parts of an epoch or of the run, and known in
// steps only now.
void Trainer::check_intervals() const {
  const config::OutputSettings& output = job_.config.output;
  const int64_t save = output.save.steps(length_.total_steps, length_.epoch.steps());
  const int64_t evaluate = evaluation_interval();
  if (output.best.is_loaded && output.saves_only_model && (job_.graph.optimizer->evaluated || job_.graph.ema))
    throw input_error("save_only_model",
                      "expected checkpoints with the optimizer's state to load the best of, as the weights that are "
                      "trained are not those that are saved, got models alone; remove one");
  if (!output.best.is_loaded || save == 0 || evaluate == 0 || save % evaluate == 0) return;
  throw input_error("load_best_model_at_end",
                    "expected checkpoints at steps of an evaluation, got one every {} steps and an evaluation every "
                    "{}; set eval_steps, and save_steps to a multiple of it",
                    save, evaluate);
}

// Saves a checkpoint if `feed` throws. Rows of a stream are read too late to refuse them before the first step, and a
// disk or a reward function may fail at any time: the training so far is kept. No weight has changed until the
// micro-batches of a step's first update are done, unless the plan updates each weight as its gradient is ready.
template <typename Feed>
auto Trainer::or_save(const Feed& feed) {
  try {
    return feed();
  } catch (...) {
    if (position_.step > 0) try_to_save();
    throw;
  }
}

// A run that goes on from a checkpoint trains the layers that are drawn by then.
void Trainer::draw_layers_if_due() {
  if (!draws_ || (has_drawn_ && !draws_->is_due(position_.step))) return;
  has_drawn_ = true;
  const LayerDraw draw = draws_->at(position_.step);
  if (listeners_.before_draw) listeners_.before_draw();
  or_save([&] {
    ranks_.agree([&] { session_.draw(draw); });
    check_same_plan();
  });
  log_info("from step {} on: {} {} trained", position_.step + 1, layers_text(draw.numbers),
           draw.numbers.size() == 1 ? "is" : "are");
  if (listeners_.draw) listeners_.draw(draw);
}

void Trainer::begin_step() {
  or_save([&] { ranks_.agree([&] { feed_->begin(position_.step); }); });
}

// Called when a run ends with an error: errors of saving are only logged, so that the user sees the first one. Ranks
// that have lost one of them save nothing, which the first error has said.
void Trainer::try_to_save() {
  try {
    ranks_.agree([] {});
  } catch (const std::exception&) {
    return;
  }
  try {
    save(SaveReason::kEarlyEnd, CheckpointContent::kAll);
  } catch (const std::exception& error) {
    log_warning("no checkpoint of step {}: {}", position_.step, error.what());
  }
}

// Takes the micro-batches of this rank: the ranks, or those that share sequences, take turns. Where sequences are
// shared all ranks compute as many, and one without a micro-batch computes the last one, which does not count.
void Trainer::take_group(const StepTotals& totals, const Turn& turn) {
  const int64_t begin = turn.update * totals.micro_batches + turn.first, together = job_.config.ranks.context;
  feed_->prepare(begin, begin + turn.count);
  group_.begin(std::ssize(session_.training().group));
  for (int64_t i = ranks_.rank() / together; !group_.is_full(); i += dealt()) {
    if (i >= turn.count && together == 1) break;
    group_.add(feed_->micro_batch(begin + std::min(i, turn.count - 1)));
  }
}

// Trains on the group that was taken, and adds what it contributes to the step.
void Trainer::learn_group(const StepTotals& totals, const Turn& turn, Contribution& step) {
  const float scale = job_.graph.objective->scale(totals);
  const std::span<const double> losses = session_.micro_steps(group_.views(), scale, turn.first);
  const bool is_finite = std::all_of(losses.begin(), losses.end(), [](double loss) { return std::isfinite(loss); });
  for (size_t i = 0; i < group_.size(); ++i) {
    feed_->add_observed(feed_->observe(observe(job_, session_, group_[i], losses[i] / scale, sums_, i)));
    step.loss += losses[i] / static_cast<double>(totals.updates);
    step.tokens += group_[i][0].tokens();
  }
  if (!is_finite && not_finite_.empty() && !session_.training().updates_early)
    not_finite_ = session_.find_not_finite(group_.views(), scale, turn.first);
}

// Returns the metrics of the objective and of the model, without the loss, which the record has already.
std::span<const Metric> Trainer::step_metrics() {
  const std::span<const ModelMetric> own = session_.training().objective.model_metrics;
  const auto is_of_model = [&](std::string_view key) {
    return std::any_of(own.begin(), own.end(), [&](const ModelMetric& one) { return one.key == key; });
  };
  job_.graph.objective->metrics(sums_, metrics_);
  std::erase_if(metrics_, [&](const Metric& metric) { return metric.key == "loss" || is_of_model(metric.key); });
  for (const ModelMetric& one : own)
    metrics_.push_back({one.key, one.is_count ? sums_.sum(one.key) : sums_.mean(one.key)});
  return metrics_;
}

StepRecord Trainer::train_step() {
  const double start = now_seconds();
  met_seconds_ = met_seconds();
  const int64_t step = position_.step;
  begin_step();
  const StepTotals totals = feed_->totals();
  Contribution sum;  // of all micro-batches
  sums_.clear();
  const double learning_rate = learning_rate_->of(step);
  double norm = 0;
  for (int64_t update = 0; update < totals.updates; ++update) {
    session_.begin_step(learning_rate, step * totals.updates + update, totals.micro_batches);
    const int64_t together = dealt() * std::ssize(session_.training().group);
    for (int64_t first = 0; first < totals.micro_batches; first += together) {
      const Turn turn{update, first, std::min(together, totals.micro_batches - first)};
      const auto next = [&] { ranks_.agree([&] { take_group(totals, turn); }); };
      const auto learn = [&] {
        ranks_.are_several() ? forward_on_ranks(totals, turn, sum) : learn_group(totals, turn, sum);
      };
      update == 0 ? or_save(next) : next();
      update == 0 && !session_.training().updates_early ? or_save(learn) : learn();
      if (ranks_.are_several()) session_.backward_step(turn.count);
    }
    if (update + 1 == totals.updates) feed_->add_metrics(sums_);
    norm += session_.update() / static_cast<double>(totals.updates);
  }
  position_.step = step + 1;
  position_.is_evaluated = false;
  if (const std::optional<config::ReferenceSync>& sync = reference_sync(job_.config); sync) {
    if (position_.step % sync->sync_steps == 0)
      sync_reference(session_.training(), sync->mixup_alpha, session_.store());
  }
  position_.num_tokens += feed_->seen_tokens(sum.tokens);
  position_.stream = feed_->position();
  position_.feed = feed_->state();
  const double seconds = now_seconds() - start;
  StepRecord record = {.step = step + 1,
                       .total_steps = length_.total_steps,
                       .epoch = length_.epoch.epochs_after(step + 1),
                       .loss = sum.loss,
                       .grad_norm = norm,
                       .learning_rate = learning_rate,
                       .metrics = step_metrics(),
                       .num_tokens = position_.num_tokens,
                       .trained_tokens = sum.tokens,
                       .step_seconds = seconds};
  if (ranks_.are_several()) share_pace(record);
  record.tokens_per_second = static_cast<double>(sum.tokens) / record.step_seconds;
  return record;
}

// Returns false if a signal has interrupted the evaluation: it is not reported, and a run that resumes from here
// evaluates first.
bool Trainer::evaluate() {
  if (!data_->has_evaluation()) return true;
  if (!or_save([&] { return evaluator_.evaluate(*feed_, sums_); })) {
    log_info("step {}: its evaluation is cut short", position_.step);
    return false;
  }
  tell_evaluation(position_.step);
  return true;
}

// Evaluates the weights that the run ends with, unless they are those of the last evaluation. An error in it is only
// logged: the weights are worth more than their evaluation.
void Trainer::evaluate_kept(TrainingOutcome& outcome) {
  if (outcome.loaded_step > 0) {
    try {
      if (evaluator_.evaluate(*feed_, sums_)) tell_evaluation(outcome.loaded_step);
    } catch (const std::exception& error) {
      log_warning("no evaluation of the weights of step {}: {}", outcome.loaded_step, error.what());
    }
  }
  const int64_t kept = outcome.loaded_step > 0 ? outcome.loaded_step : position_.step;
  if (facts_.evaluation_step == kept) outcome.final_evaluation = facts_.evaluation;
}

void Trainer::tell_evaluation(int64_t weights_step) {
  job_.graph.objective->metrics(sums_, metrics_);
  if (weights_step == position_.step) position_.is_evaluated = true;
  facts_.evaluation_step = weights_step;
  facts_.evaluation = kept(metrics_);
  // An evaluation before the first step says nothing about training and does not count in transformers, either. One of
  // a checkpoint's weights has been counted already.
  if (position_.step > 0 && weights_step == position_.step)
    or_save([&] { ranks_.agree([&] { stopping_.add_evaluation(position_.step, metrics_); }); });
  if (!listeners_.evaluation) return;
  listeners_.evaluation({.step = position_.step,
                         .weights_step = weights_step,
                         .epoch = length_.epoch.epochs_after(position_.step),
                         .metrics = metrics_});
}

void Trainer::sample_data() {
  evaluator_.with_evaluated_weights([&] { data_->sample(session_, position_.step); });
}

void Trainer::sample() {
  if (job_.config.samples.every_steps > 0) sample_data();
  if (job_.samples.empty()) return;
  std::vector<infer::Generated> answers;
  evaluator_.with_evaluated_weights([&] { answers = session_.sample(ends_); });
  if (listeners_.samples)
    listeners_.samples({.step = position_.step, .answers = sample_answers(job_.samples, answers)});
}

bool Trainer::is_due(int64_t every) const { return every > 0 && position_.step % every == 0; }

// An epoch ends at its last row, whatever the size of the batches before.
bool Trainer::is_due(const config::Interval& interval) const {
  const bool is_by_epoch = interval.kind == config::Interval::Kind::kPerEpoch;
  const int64_t step = is_by_epoch ? length_.epoch.even_step(position_.step) : position_.step;
  const int64_t every = interval.steps(length_.total_steps, length_.epoch.steps());
  return every > 0 && step % every == 0;
}

bool Trainer::is_evaluation_due() const {
  const config::OutputSettings& output = job_.config.output;
  const bool is_by_epoch = output.evaluate.kind == config::Interval::Kind::kPerEpoch;
  const double unit = is_by_epoch ? static_cast<double>(length_.epoch.steps()) : 1;
  const int64_t step = is_by_epoch ? length_.epoch.even_step(position_.step) : position_.step;
  return is_due(output.evaluate) && static_cast<double>(step) >= output.eval_delay * unit;
}

// Does the work between two steps. If a signal interrupts its evaluation, a run that resumes from the checkpoint does
// all of it.
void Trainer::finish_step(TrainingOutcome& outcome) {
  const config::Interval& saves = job_.config.output.save;
  const int64_t save_every = saves.steps(length_.total_steps, length_.epoch.steps());
  const bool is_last_step = position_.step == length_.total_steps;
  // As in transformers, the last step has a checkpoint, too.
  const bool is_first_due = job_.config.output.saves_first_step && position_.step == 1;
  const bool is_save_due = is_due(saves) || (save_every > 0 && is_last_step) || is_first_due;
  const CheckpointContent usual =
      job_.config.output.saves_only_model ? CheckpointContent::kModel : CheckpointContent::kAll;
  // A longer run that resumes from it must not include an evaluation that only exists because this run ends.
  const bool saves_first = is_save_due && is_last_step && !is_evaluation_due();
  if (saves_first) save(SaveReason::kDue, usual);
  const bool evaluates = is_evaluation_due() || is_last_step || stopping_.stops();
  const bool is_cut_short = evaluates && !evaluate();
  const bool ends = is_last_step || stopping_.stops();  // which the evaluation may have asked for
  if (!is_cut_short && (ends || is_due(job_.config.samples.every_steps))) sample();
  outcome.interrupted = !ends && ranks_.interrupted();
  const bool is_best = saves.kind == config::Interval::Kind::kBest && stopping_.is_best(position_.step);
  const SaveReason reason = is_save_due || is_best ? SaveReason::kDue : SaveReason::kEarlyEnd;
  if (!saves_first && (reason == SaveReason::kDue || outcome.interrupted))
    save(reason, outcome.interrupted ? CheckpointContent::kAll : usual);
}

// Does the work before the first step of this process. An evaluation that a signal interrupted is done now.
void Trainer::begin_run(TrainingOutcome& outcome) {
  // Removes what a process that was killed between a checkpoint and this has left.
  ranks_.first([&] { remove_old(); });
  outcome.interrupted = position_.step < length_.total_steps && ranks_.interrupted();
  if (outcome.interrupted) return;
  if (position_.step > 0) {
    if (is_evaluation_due() && !is_evaluated() && data_->has_evaluation()) finish_step(outcome);
    return;
  }
  if (job_.config.output.evaluates_first) outcome.interrupted = !evaluate();
  if (job_.config.samples.every_steps > 0 && !outcome.interrupted) sample_data();
}

TrainingOutcome Trainer::run() {
  TrainingOutcome outcome{.first_step = position_.step};
  if (position_.stream && position_.stream->block > 0) log_info("reading over the rows before the checkpoint");
  feed_ = data_->make_feed(session_, length_, position_, ranks_);
  std::vector<double> seconds;
  // Touches the memory now, so that a long run does not grow page by page; bounded by the steps of a few days.
  constexpr int64_t kMaxTouched = int64_t{1} << 20;
  resize(seconds, std::clamp<int64_t>(length_.total_steps - position_.step, 0, kMaxTouched));
  seconds.clear();
  begin_run(outcome);
  while (position_.step < length_.total_steps && !outcome.interrupted && !stopping_.stops()) {
    restart_adapter_if_due();
    draw_layers_if_due();
    if (listeners_.before_step) listeners_.before_step();
    const StepRecord record = train_step();
    seconds.push_back(record.step_seconds);
    outcome.step_seconds_sum += record.step_seconds;
    outcome.tokens += record.trained_tokens;
    if (listeners_.step) listeners_.step(record);
    ranks_.agree([&] { check_finite(record, not_finite_); });
    facts_.loss = record.loss;
    stopping_.add_loss(record.loss);
    finish_step(outcome);
  }
  outcome.steps = position_.step - outcome.first_step;
  outcome.median_step_seconds = median(std::move(seconds));
  if (outcome.interrupted) return outcome;
  if (position_.step < length_.total_steps) outcome.ended_early = stopping_.reason();
  // The checkpoint that this run started from is of the last step, written before its evaluation.
  if (position_.step == length_.total_steps && !is_evaluated()) (void)evaluate();
  load_best(outcome);
  evaluate_kept(outcome);
  feed_.reset();  // a stream would go on reading while the model is written
  evaluator_.check_has_trained_weights(position_.step);
  save_result(outcome);
  return outcome;
}

}  // namespace spillway::train
