// The pushes of a run to the Hugging Face hub: of checkpoints while it trains on, of the result at its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <string>

#include "config/config.h"
#include "hub/push.h"

namespace spillway {

class HubPusher {
 public:
  // Finds or creates the repository, and sees that the token may write there and that it has no weights other than
  // those of the pattern `weights`, so that a run does not learn that at its end. `checkpoints_kept`: so many are left
  // when older ones are removed; 0: all. Throws as hub::prepare_push().
  HubPusher(const config::HubSettings& settings, int64_t checkpoints_kept, const std::string& weights);
  // Waits for the push that is going on.
  ~HubPusher();
  HubPusher(HubPusher&&) = delete;

  // Waits up to `most` for the last push, if the next checkpoint is to wait for it: where the settings say so, or where
  // it reads a checkpoint that is about to be removed. Returns false if it is still going on.
  [[nodiscard]] bool is_ready(std::chrono::milliseconds most) const;

  // Pushes a checkpoint, as the strategy says, on another thread. If the last push is not over, it is left out. A push
  // that fails is a warning: the run goes on.
  void push_checkpoint(const std::filesystem::path& checkpoint, int64_t step);

  // Pushes the result, when the last push is over, on another thread. The future has what was pushed, or throws as
  // hub::push().
  std::future<hub::Pushed> push_result(const std::filesystem::path& output);

  // Returns the command by which a user pushes the result, with the branch and the privacy of the settings.
  [[nodiscard]] std::string command(const std::filesystem::path& output) const;

  // Returns the repository, with its owner.
  [[nodiscard]] const hub::Repository& repository() const { return repository_; }

 private:
  config::HubSettings settings_;
  int64_t checkpoints_kept_;
  hub::PushOptions options_;
  hub::Repository repository_;
  std::future<void> running_;
  int64_t saves_since_ = 0;  // checkpoints that were written since that push began
};

}  // namespace spillway
