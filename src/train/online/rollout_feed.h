// The micro-batches of online reinforcement learning. A round of completions is generated when a step needs the first
// of them; it is scored, and trained on as often as the config says. Several ranks make it together, and have all of
// it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "job/online/online_job.h"
#include "job/online/rounds.h"
#include "rewards/advantages.h"
#include "saved/checkpoint.h"
#include "train/online/entropy_control.h"
#include "train/online/round_record.h"
#include "train/online/round_source.h"
#include "train/ranks.h"
#include "train/session.h"
#include "train/step_feed.h"

namespace spillway::train {

class RolloutFeed final : public StepFeed {
 public:
  // Borrows job, session and ranks. The run goes on from `position`, whose `feed` came from state(). REQUIRES: the job
  // is online.
  RolloutFeed(const Job& job, TrainingSession& session, std::unique_ptr<RoundSource> source,
              std::function<void(const RoundRecord&)> on_round, const TrainingPosition& position, Ranks& ranks);

  void begin(int64_t step) override;
  [[nodiscard]] StepTotals totals() const override;
  void prepare(int64_t first, int64_t last) override;
  [[nodiscard]] std::span<const data::MicroBatch> micro_batch(int64_t index) override;
  [[nodiscard]] std::vector<double> observe(const Observation& seen) override;
  void add_observed(std::span<const double> numbers) override;
  void add_metrics(MetricSums& sums) override;
  [[nodiscard]] int64_t seen_tokens(int64_t trained) override;
  [[nodiscard]] FeedState state() const override;
  void evaluate(MetricSums& sums) override;

 private:
  // A round that is trained on.
  struct HeldRound {
    std::shared_ptr<const Round> round;  // a checkpoint may share it
    size_t most_of_prompt = SIZE_MAX;    // tokens that are trained on, the last ones
    RoundTotals totals;                  // the entropy's coefficient is that of the micro-batch made last
  };

  void restore(const FeedState& state);
  void make_round(int64_t number);
  [[nodiscard]] HeldRound held(std::shared_ptr<const Round> round) const;
  [[nodiscard]] HeldRound* find(int64_t number);
  // Fills the streams, as OnlineObjective::fill().
  void fill(std::span<const Completion* const> completions, size_t most_of_prompt, const RoundTotals* round);
  void score(std::vector<Completion>& completions);
  void score_group(std::span<Completion> completions, size_t most_of_prompt);
  void take_scores(std::span<const std::vector<double>> scores, size_t most_of_prompt,
                   std::span<Completion> completions) const;
  void value_tokens(std::vector<Completion>& completions);
  [[nodiscard]] rewards::Advantages advantages_of(const std::vector<Completion>& completions) const;
  // Reports the round to the listener. `seconds` are the times of the programs.
  void tell(const Round& round, const RoundAnswer& answer, double frac_reward_zero_std, std::vector<double> seconds);
  void warn_of_equal_rewards(double frac_reward_zero_std);
  void warn_of_no_reward(const rewards::RewardTable& rewards);
  void take_pending(MetricSums& sums);
  [[nodiscard]] int64_t completions_per_micro_batch() const;
  [[nodiscard]] size_t most_of_prompt(const std::vector<Completion>& completions) const;
  void note(std::string key, double value);
  void note_share(std::string key, double share);
  void note_completions(const std::vector<Completion>& completions);
  // Returns true if a completion counts as cut by its length, by the rule of the objective's trainer in TRL.
  [[nodiscard]] bool is_cut(const Completion& one) const;
  [[nodiscard]] TrainedCompletion trained(const Completion& completion, size_t most_of_prompt) const;
  [[nodiscard]] const std::vector<double>& weights() const { return job_.config.rewards->weights; }

  const Job& job_;
  const OnlineJob& online_;
  TrainingSession& session_;
  std::unique_ptr<RoundSource> source_;
  std::function<void(const RoundRecord&)> on_round_;
  Ranks& ranks_;
  RoundSchedule schedule_;
  EntropyControl entropy_;
  std::set<std::string, std::less<>> keys_;  // of metrics, which outlive what they are added to
  int64_t step_;                             // that began last; -1: none
  RoundSchedule::Range range_;
  std::vector<HeldRound> rounds_;  // by number: one, or those that micro-batches of several ranks belong to
  std::vector<Metric> pending_;    // metrics since the last add_metrics()
  // Tokens of prompts and completions: of all rounds, and of those since the last seen_tokens().
  int64_t seen_tokens_, new_tokens_ = 0;
  std::vector<data::MicroBatch> streams_;
  bool has_warned_ = false, has_warned_of_none_ = false;
};

}  // namespace spillway::train
