#include "train/online/rollout_feed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/sizes.h"

namespace spillway::train {
namespace {

rewards::RewardTable table_of(const std::vector<Completion>& completions, size_t functions) {
  rewards::RewardTable table{.completions = std::ssize(completions), .functions = static_cast<int64_t>(functions)};
  for (const Completion& one : completions) {
    SPILLWAY_CHECK(one.rewards.size() == functions, "{} rewards of {} functions", one.rewards.size(), functions);
    table.values.insert(table.values.end(), one.rewards.begin(), one.rewards.end());
  }
  return table;
}

struct Lengths {
  double mean = 0, least = 0, most = 0;
};
Lengths lengths_of(const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return {};
  double sum = 0;
  for (const int64_t length : lengths) sum += static_cast<double>(length);
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  return {sum / static_cast<double>(lengths.size()), static_cast<double>(*least), static_cast<double>(*most)};
}

// Returns the time that each of the session's programs has taken so far.
std::vector<double> program_seconds(const TrainingSession& session) {
  std::vector<double> seconds;
  for (const LaneProfile* lanes : session.profiles())
    seconds.push_back(lanes ? lanes->totals(Lane::kCompute).busy_seconds + lanes->stall_seconds() : 0);
  return seconds;
}

double distance_of(const Completion& one) {
  double sum = 0;
  for (size_t i = 0; i < one.ref_logps.size(); ++i) sum += static_cast<double>(one.old_logps[i]) - one.ref_logps[i];
  return sum;
}

// Returns the mean over tokens of the first-order estimate of the KL to the reference.
double mean_distance(const std::vector<Completion>& completions) {
  double sum = 0, tokens = 0;
  for (const Completion& one : completions) {
    sum += distance_of(one);
    tokens += static_cast<double>(one.ref_logps.size());
  }
  return sum / std::max(1.0, tokens);
}

}  // namespace

RolloutFeed::RolloutFeed(const Job& job, TrainingSession& session, std::unique_ptr<RoundSource> source,
                         std::function<void(const RoundRecord&)> on_round, const TrainingPosition& position,
                         Ranks& ranks)
    : job_(job),
      online_(online_of(job)),
      session_(session),
      source_(std::move(source)),
      on_round_(std::move(on_round)),
      ranks_(ranks),
      schedule_(job.config, std::ssize(online_.training)),
      entropy_(*job.config.online),
      step_(position.step - 1),
      seen_tokens_(position.num_tokens),
      streams_(1) {
  streams_[0].reserve(completions_per_micro_batch() * online_.sequence_len);
  restore(position.feed);
}

// A saved round is discarded if its size is not the config's: the run continues with rounds of the new size.
void RolloutFeed::restore(const FeedState& state) {
  if (!state.entropy.is_null()) entropy_.restore(state.entropy);
  if (!state.round || std::ssize(state.round->order) != schedule_.slices() * completions_per_micro_batch()) return;
  rounds_.push_back(held(state.round));
}

void RolloutFeed::begin(int64_t step) {
  step_ = step;
  range_ = schedule_.micro_batches_of(step);
  prepare(0, 1);
}

StepTotals RolloutFeed::totals() const {
  const int64_t updates = job_.config.online->updates_per_step();
  return {.micro_batches = (range_.last - range_.first) / updates, .updates = updates};
}

void RolloutFeed::prepare(int64_t first, int64_t last) {
  const int64_t from = schedule_.round_of(range_.first + first), to = schedule_.round_of(range_.first + last - 1);
  std::erase_if(rounds_, [&](const HeldRound& one) { return one.round->number < from || one.round->number > to; });
  for (int64_t number = from; number <= to; ++number)
    if (find(number) == nullptr) make_round(number);
}

RolloutFeed::HeldRound* RolloutFeed::find(int64_t number) {
  const auto found =
      std::find_if(rounds_.begin(), rounds_.end(), [&](const HeldRound& one) { return one.round->number == number; });
  return found == rounds_.end() ? nullptr : &*found;
}

std::span<const data::MicroBatch> RolloutFeed::micro_batch(int64_t index) {
  const int64_t micro_batch = range_.first + index, size = completions_per_micro_batch();
  HeldRound* const held = find(schedule_.round_of(micro_batch));
  SPILLWAY_CHECK(held != nullptr, "no round for micro-batch {}", micro_batch);
  std::vector<const Completion*> rows;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t number = nth(held->round->order, schedule_.slice_of(micro_batch) * size + i);
    rows.push_back(&nth(held->round->completions, number));
  }
  held->totals.entropy_coef = entropy_.applied();
  fill(rows, held->most_of_prompt, &held->totals);
  return streams_;
}

int64_t RolloutFeed::completions_per_micro_batch() const {
  return job_.config.batches.micro_batch_size * job_.config.online->completions_per_row();
}

bool RolloutFeed::is_cut(const Completion& one) const {
  if (job_.config.online->has_scores()) return one.is_truncated;
  return one.is_cut(online_.tokenizer->fill_id());
}

TrainedCompletion RolloutFeed::trained(const Completion& one, size_t most_of_prompt) const {
  const std::span<const int32_t> prompt = nth(online_.training, one.row).ids;
  return {.prompt = prompt.last(std::min(prompt.size(), most_of_prompt)),
          .ids = one.ids,
          .is_masked = job_.config.online->mask_truncated_completions && is_cut(one),
          .advantage = one.advantage,
          .score = one.score,
          .old_logps = one.old_logps,
          .ref_logps = one.ref_logps,
          .advantages = one.advantages,
          .returns = one.returns,
          .values = std::span(one.values).first(one.returns.size())};
}

RolloutFeed::HeldRound RolloutFeed::held(std::shared_ptr<const Round> round) const {
  HeldRound held{.most_of_prompt = most_of_prompt(round->completions),
                 .totals = {.epoch = schedule_.epoch_of(round->number)}};
  for (const Completion& one : round->completions) {
    held.totals.tokens += trained(one, held.most_of_prompt).tokens();
    held.totals.longest = std::max(held.totals.longest, std::ssize(one.ids));
  }
  held.round = std::move(round);
  return held;
}

void RolloutFeed::fill(std::span<const Completion* const> completions, size_t most_of_prompt,
                       const RoundTotals* round) {
  std::vector<TrainedCompletion> rows;
  for (const Completion* one : completions) rows.push_back(trained(*one, most_of_prompt));
  online_.objective->fill(streams_[0], rows, round);
}

void RolloutFeed::make_round(int64_t number) {
  const std::vector<double> before = program_seconds(session_);
  const std::vector<int64_t> prompts = schedule_.prompts_of(number);
  RoundAnswer answer = source_->make({.number = number,
                                      .prompts = prompts,
                                      .step = step_,
                                      .epoch = schedule_.epoch().epochs_after(step_),
                                      .seen_tokens = seen_tokens_});
  SPILLWAY_CHECK(answer.completions.size() == prompts.size(), "{} completions of {} prompts", answer.completions.size(),
                 prompts.size());
  score(answer.completions);
  const rewards::Advantages advantages = advantages_of(answer.completions);
  for (size_t i = 0; i < answer.completions.size(); ++i) {
    Completion& one = answer.completions[i];
    (job_.config.online->has_scores() ? one.score : one.advantage) = advantages.values[i];
  }
  if (job_.config.online->kind == config::OnlineKind::kPpo) value_tokens(answer.completions);
  int64_t tokens = 0;
  for (const Completion& one : answer.completions)
    tokens += std::ssize(one.ids) + std::ssize(nth(online_.training, one.row).ids);
  seen_tokens_ += tokens;
  new_tokens_ += tokens;
  const auto round = std::make_shared<const Round>(
      Round{.number = number,
            .completions = answer.completions,
            .order = answer.order.empty() ? schedule_.training_order(number) : answer.order});
  rounds_.push_back(held(round));
  std::vector<double> seconds = program_seconds(session_);
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] -= before[i];
  tell(*round, answer, advantages.frac_reward_zero_std, std::move(seconds));
}

// Returns the room that max_length leaves a prompt beside the longest completion of a round, as TRL does.
size_t RolloutFeed::most_of_prompt(const std::vector<Completion>& completions) const {
  const std::optional<int64_t> most = job_.config.online->max_length;
  if (!most) return SIZE_MAX;
  size_t longest = 0;
  for (const Completion& one : completions) longest = std::max(longest, one.ids.size());
  return static_cast<size_t>(*most) - longest;
}

// For PPO: computes advantages and returns of tokens from scores, and TRL's metrics of these.
void RolloutFeed::value_tokens(std::vector<Completion>& completions) {
  std::vector<rewards::ScoredTokens> round;
  double score = 0, ended = 0;
  for (const Completion& one : completions) {
    round.push_back({one.old_logps, one.ref_logps, one.values, one.score});
    score += one.score / static_cast<double>(completions.size());
    ended += one.is_truncated ? 0 : 1;
  }
  rewards::RoundAdvantages tokens = rewards::token_advantages(round, job_.config.online->ppo.advantages);
  for (size_t i = 0; i < completions.size(); ++i) {
    completions[i].advantages = std::move(tokens.completions[i].advantages);
    completions[i].returns = std::move(tokens.completions[i].returns);
  }
  note("objective/kl", tokens.kl);
  note("objective/entropy", tokens.entropy);
  note("objective/non_score_reward", tokens.non_score_reward);
  note("objective/rlhf_reward", tokens.non_score_reward + score);
  note("objective/scores", score);
  note("val/num_eos_tokens", ended);
}

rewards::Advantages RolloutFeed::advantages_of(const std::vector<Completion>& completions) const {
  const config::OnlineSettings& online = *job_.config.online;
  const rewards::RewardTable table = table_of(completions, source_->reward_names().size());
  if (online.kind == config::OnlineKind::kGrpo)
    return rewards::advantages_of(
        table, weights(), online.num_generations,
        rewards::GroupedAdvantages{.scale = online.scale_rewards, .aggregation = online.aggregation});
  if (online.has_scores()) {
    rewards::PairScores scores{.missing_eos_penalty = online.missing_eos_penalty};
    for (const Completion& one : completions) scores.is_truncated.push_back(one.is_truncated);
    return rewards::advantages_of(table, weights(), online.num_generations, scores);
  }
  std::vector<double> kl;
  for (const Completion& one : completions) kl.push_back(distance_of(one));
  return rewards::advantages_of(table, weights(), online.num_generations,
                                rewards::LeaveOneOutAdvantages{.clip_range = online.reward_clip_range,
                                                               .beta = online.beta(),
                                                               .kl = kl,
                                                               .normalize = online.normalize_advantages});
}

void RolloutFeed::note(std::string key, double value) {
  if (!std::isnan(value)) pending_.push_back({*keys_.insert(std::move(key)).first, value});
}

void RolloutFeed::note_share(std::string key, double share) {
  if (!std::isnan(share)) pending_.push_back({*keys_.insert(std::move(key)).first, share, true});
}

void RolloutFeed::note_completions(const std::vector<Completion>& completions) {
  std::vector<int64_t> all, terminated;
  for (const Completion& one : completions) {
    all.push_back(std::ssize(one.ids));
    if (!is_cut(one)) terminated.push_back(std::ssize(one.ids));
  }
  const Lengths of_all = lengths_of(all), of_terminated = lengths_of(terminated);
  note("completions/mean_length", of_all.mean);
  note("completions/min_length", of_all.least);
  note("completions/max_length", of_all.most);
  const double ended = static_cast<double>(terminated.size()) / static_cast<double>(all.size());
  note_share("completions/clipped_ratio", 1 - ended);
  note("completions/mean_terminated_length", of_terminated.mean);
  note("completions/min_terminated_length", of_terminated.least);
  note("completions/max_terminated_length", of_terminated.most);
  if (job_.config.online->kind == config::OnlineKind::kOnlineDpo) note_share("val/contain_eos_token", ended);
}

void RolloutFeed::warn_of_equal_rewards(double frac_reward_zero_std) {
  if (frac_reward_zero_std < 1 || std::exchange(has_warned_, true)) return;
  log_warning(
      "step {}: the completions of each prompt have one reward (frac_reward_zero_std 1), so that nothing is learned "
      "from them; look at the reward functions, or raise num_generations or temperature",
      step_ + 1);
}

// Warns as TRL does, which then uses a reward of 0. `rewards` is TRL's table, with NaN for None.
void RolloutFeed::warn_of_no_reward(const rewards::RewardTable& rewards) {
  int64_t without = 0;
  for (const double sum : rewards::weighted_sum(rewards, weights())) without += std::isnan(sum) ? 1 : 0;
  if (without == 0 || std::exchange(has_warned_of_none_, true)) return;
  log_warning(
      "step {}: all reward functions returned None for {} of {} completions, from which nothing is learned; let one of "
      "them return a number",
      step_ + 1, without, rewards.completions);
}

// Notes the metrics of the round, and calls the listener.
void RolloutFeed::tell(const Round& round, const RoundAnswer& answer, double frac_reward_zero_std,
                       std::vector<double> seconds) {
  const bool has_groups = job_.config.online->num_generations > 1;
  if (has_groups) warn_of_equal_rewards(frac_reward_zero_std);
  const std::vector<Completion>& completions = round.completions;
  RoundRecord record{.step = step_ + 1, .round = &round, .answer = &answer, .program_seconds = std::move(seconds)};
  const rewards::RewardTable table = table_of(completions, source_->reward_names().size());
  warn_of_no_reward(table);
  for (auto& [key, value] : rewards::reward_metrics(table, weights(), source_->reward_names())) {
    if (key == "reward") record.reward = value;
    if (key == "reward_std") record.reward_std = value;
    note(key, value);
  }
  if (has_groups) note_share("frac_reward_zero_std", frac_reward_zero_std);
  if (job_.config.online->kind == config::OnlineKind::kRloo && online_.objective->has_reference())
    note("kl", mean_distance(completions));
  note_completions(completions);
  for (const Completion& one : completions)
    record.length += static_cast<double>(one.ids.size()) / static_cast<double>(completions.size());
  for (const auto& [key, value] : answer.metrics) note(key, value);
  note("generation_seconds", answer.generation_seconds);
  note("reward_seconds", answer.reward_seconds);
  if (answer.generation_seconds > 0)
    note("generation_tokens_per_second", static_cast<double>(answer.generated_tokens) / answer.generation_seconds);
  double difference = -1;
  for (const Completion& one : completions) {
    for (size_t i = 0; i < std::min(one.logprobs.size(), one.old_logps.size()); ++i)
      difference = std::max(difference, std::abs(static_cast<double>(one.logprobs[i]) - one.old_logps[i]));
  }
  if (difference >= 0) note("sampling/sampling_logp_difference/max", difference);
  if (on_round_) on_round_(record);
}

std::vector<double> RolloutFeed::observe(const Observation& seen) {
  if (!entropy_.is_adaptive()) return {};
  const ActingEntropy entropy = online_.objective->acting_entropy(seen);
  return {entropy.sum, entropy.tokens};
}

void RolloutFeed::add_observed(std::span<const double> numbers) {
  if (!numbers.empty()) entropy_.add({.sum = numbers[0], .tokens = numbers[1]});
}

// Call it after the last micro-batch of a step.
void RolloutFeed::add_metrics(MetricSums& sums) {
  entropy_.end_step();
  if (job_.config.online->entropy_coef != 0 || entropy_.is_adaptive()) note("entropy_coef", entropy_.coef());
  take_pending(sums);
}

void RolloutFeed::take_pending(MetricSums& sums) {
  for (const Metric& metric : pending_) sums.add(metric);
  pending_.clear();
}

int64_t RolloutFeed::seen_tokens(int64_t) { return std::exchange(new_tokens_, 0); }

// The state is a round that later steps train on, and the entropy coefficient.
FeedState RolloutFeed::state() const {
  const int64_t next = schedule_.micro_batches_of(step_ + 1).first;
  FeedState state;
  if (!rounds_.empty() && schedule_.round_of(next) == rounds_.back().round->number) state.round = rounds_.back().round;
  if (entropy_.is_adaptive()) state.entropy = entropy_.state();
  return state;
}

// The completions of an evaluation have random numbers of their own.
void RolloutFeed::evaluate(MetricSums& sums) {
  const std::vector<data::PromptRow>& rows = online_.validation;
  const config::OnlineSettings& online = *job_.config.online;
  const int64_t each = online.num_generations_eval.value_or(online.num_generations);
  std::vector<int64_t> prompts;
  for (int64_t row = 0; row < std::ssize(rows); ++row) append_repeated(prompts, each, row);
  const RoundAnswer answer = source_->make({.number = 0,
                                            .prompts = prompts,
                                            .step = step_ + 1,
                                            .epoch = schedule_.epoch().epochs_after(step_ + 1),
                                            .seen_tokens = seen_tokens_,
                                            .is_validation = true});
  std::vector<Metric> training = std::exchange(pending_, {});
  const rewards::RewardTable table = table_of(answer.completions, source_->reward_names().size());
  auto metrics = rewards::reward_metrics(table, weights(), source_->reward_names());
  std::rotate(metrics.begin(), metrics.end() - 2, metrics.end());  // the reward of all first
  for (auto& [key, value] : metrics) note(key, value);
  note_completions(answer.completions);
  take_pending(sums);
  pending_ = std::move(training);
}

}  // namespace spillway::train
