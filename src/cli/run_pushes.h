// Sends what a training, of one or several ranks, makes to the Hugging Face hub.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>

#include "cli/hub_pusher.h"
#include "job/job.h"
#include "train/ranks.h"

namespace spillway {

// Rank 0 pushes. The others wait where it waits, and hear of it meanwhile, so that no push is taken for a rank that is
// lost. All members are collective.
class RunPushes {
 public:
  // Borrows its arguments. `name` is what the result is called in messages: "the adapter".
  RunPushes(train::Ranks& ranks, const train::Job& job, std::string_view name)
      : ranks_(ranks), job_(job), name_(name) {}

  // Opens the repository if the job's config names one; without one, no other member does anything. Throws as
  // HubPusher.
  void open();

  // Pushes a checkpoint as the config's strategy says.
  void push_checkpoint(const std::filesystem::path& folder, int64_t step);

  // Pushes the result. Returns false if it, which is whole on this machine, is not on the hub.
  [[nodiscard]] bool push_result(const std::filesystem::path& output);

 private:
  // Returns the repository's name; empty if nothing goes to the hub.
  std::string open_hub();
  // Returns a pattern of the names of the weights that the run writes.
  [[nodiscard]] std::string weights_pattern() const;
  // Logs how the push of the result has ended, and returns true if the result is on the hub.
  [[nodiscard]] bool say_pushed(std::future<hub::Pushed>& result, const std::filesystem::path& output) const;

  train::Ranks& ranks_;
  const train::Job& job_;
  std::string name_;
  bool goes_to_hub_ = false;      // the same on all ranks
  std::optional<HubPusher> hub_;  // on rank 0
};

}  // namespace spillway
