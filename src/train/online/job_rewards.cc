#include "train/online/job_rewards.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace spillway::train {
namespace {

class SessionProgram final : public infer::RewardProgram {
 public:
  SessionProgram(std::shared_ptr<TrainingSession*> session, size_t model, const infer::RewardRoom& room)
      : session_(std::move(session)), model_(model), room_(room) {}

  [[nodiscard]] infer::RewardRoom prepare(int64_t, int64_t) override { return room_; }
  [[nodiscard]] std::span<const float> run(const data::MicroBatch& texts) override {
    SPILLWAY_CHECK(*session_ != nullptr, "a reward model before there is a session");
    return (*session_)->score_texts(model_, texts);
  }

 private:
  std::shared_ptr<TrainingSession*> session_;
  size_t model_;
  infer::RewardRoom room_;
};

}  // namespace

rewards::ModelRewardFactory JobRewards::factory() {
  return [this](const rewards::RewardEntry& entry) {
    const std::vector<JobRewardModel>& models = job_.online->reward_models;
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const JobRewardModel& one) { return one.model->folder() == entry.folder; });
    SPILLWAY_CHECK(found != models.end(), "the job has no reward model {}", entry.folder);
    const auto number = static_cast<size_t>(found - models.begin());
    return infer::model_reward(found->model, std::make_shared<SessionProgram>(session_, number, found->room),
                               entry.reads_ids);
  };
}

}  // namespace spillway::train
