// The reward models of a job as reward functions, which are made before there is a session.
#pragma once

#include <memory>

#include "job/job.h"
#include "rewards/rewards.h"
#include "train/session.h"

namespace spillway::train {

// Makes functions that score once they are attached.
class JobRewards {
 public:
  // Borrows the job.
  explicit JobRewards(const Job& job) : job_(job) {}

  // What makes the function of an entry; it may not outlive this object.
  [[nodiscard]] rewards::ModelRewardFactory factory();
  // All functions made so far and later run in the session, which must outlive them. REQUIRES: it is of the job.
  void attach(TrainingSession& session) { *session_ = &session; }

 private:
  const Job& job_;
  std::shared_ptr<TrainingSession*> session_ = std::make_shared<TrainingSession*>(nullptr);
};

}  // namespace spillway::train
