// Reward functions for the reward models of a job. They are made before there is a session.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "job/job.h"
#include "rewards/rewards.h"
#include "train/ranks.h"
#include "train/session.h"

namespace spillway::train {

// Makes functions that can score once attach() has been called. Of several ranks, rank 0 alone has functions; all of
// them run the models.
class JobRewards {
 public:
  // Borrows the job.
  explicit JobRewards(const Job& job);

  // Returns the factory of the functions; it must not outlive this object.
  [[nodiscard]] rewards::ModelRewardFactory factory();
  // Lets all functions, those made so far and later ones, run in the session, which must outlive them, as must `ranks`.
  // REQUIRES: the session is of the job.
  void attach(TrainingSession& session, Ranks& ranks);
  // Runs `body`, which may call the functions, on rank 0, and the models on all ranks as it needs them. Returns its
  // text, on all ranks. REQUIRES: attach().
  [[nodiscard]] std::string of_first(const std::function<std::string()>& body);

 private:
  class Runs;
  class SessionProgram;

  const Job& job_;
  std::shared_ptr<Runs> runs_;
};

}  // namespace spillway::train
