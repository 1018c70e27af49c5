// Reward functions for the reward models of a job. They are made before there is a session.
#pragma once

#include <memory>

#include "job/job.h"
#include "rewards/rewards.h"
#include "train/session.h"

namespace spillway::train {

// Makes functions that can score once attach() has been called.
class JobRewards {
 public:
  // Borrows the job.
  explicit JobRewards(const Job& job) : job_(job) {}

  // Returns the factory of the functions; it must not outlive this object.
  [[nodiscard]] rewards::ModelRewardFactory factory();
  // Lets all functions, those made so far and later ones, run in the session, which must outlive them. REQUIRES: the
  // session is of the job.
  void attach(TrainingSession& session) { *session_ = &session; }

 private:
  const Job& job_;
  std::shared_ptr<TrainingSession*> session_ = std::make_shared<TrainingSession*>(nullptr);
};

}  // namespace spillway::train
