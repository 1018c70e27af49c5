#include "train/online/prompt_data.h"

#include <utility>

#include "io/checksum.h"
#include "job/online/online_job.h"
#include "train/online/rollout_feed.h"

namespace spillway::train {
namespace {

std::string prompts_checksum(const std::vector<data::PromptRow>& rows) {
  Checksum sum;
  for (const data::PromptRow& row : rows) {
    const auto length = std::ssize(row.ids);
    sum.add(std::as_bytes(std::span(&length, 1)));
    sum.add(std::as_bytes(std::span(row.ids)));
  }
  return sum.text();
}

class PromptData final : public RunData {
 public:
  PromptData(const Job& job, DataListeners listeners, MakeRounds make_rounds)
      : job_(job), online_(online_of(job)), listeners_(std::move(listeners)), make_rounds_(std::move(make_rounds)) {}

  [[nodiscard]] TrainingLength length() const override {
    const RoundSchedule schedule(job_.config, std::ssize(online_.training));
    const EpochSize epoch = schedule.epoch();
    const config::ScheduleSettings& said = job_.config.schedule;
    const bool is_ppo = job_.config.online->kind == config::OnlineKind::kPpo;
    if (!is_ppo || said.max_steps) return {.epoch = epoch, .total_steps = total_steps(said, epoch)};
    return {.epoch = epoch, .total_steps = schedule.rounds_for(said.num_epochs)};
  }
  // A round of completions may be trained on in part.
  [[nodiscard]] bool counts_rows() const override { return false; }
  void identify(int64_t steps_per_epoch, TrainingPosition& position) const override {
    position.rows = std::ssize(online_.training);
    position.rows_checksum = prompts_checksum(online_.training);
    if (has_evaluation()) position.evaluation_checksum = prompts_checksum(online_.validation);
    position.steps_per_epoch = steps_per_epoch;
  }
  [[nodiscard]] std::unique_ptr<StepFeed> make_feed(TrainingSession& session, const TrainingLength& length,
                                                    const TrainingPosition& position, Ranks& ranks) const override {
    return std::make_unique<RolloutFeed>(job_, session, make_rounds_(session, length.total_steps), listeners_.round,
                                         position, ranks);
  }
  [[nodiscard]] bool has_evaluation() const override { return !online_.validation.empty(); }
  [[nodiscard]] std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession&) const override {
    return nullptr;
  }

 private:
  const Job& job_;
  const OnlineJob& online_;
  DataListeners listeners_;
  MakeRounds make_rounds_;
};

}  // namespace

std::unique_ptr<RunData> make_prompt_data(const Job& job, DataListeners listeners, MakeRounds make_rounds) {
  return std::make_unique<PromptData>(job, std::move(listeners), std::move(make_rounds));
}

}  // namespace spillway::train
