// Jobs that several ranks train, and the comparison of what they leave with what one rank leaves.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "tests/support/ranks_run.h"
#include "tests/support/tiny_job.h"

namespace spillway::testing {

constexpr int kSharedSteps = 6;  // two epochs of 11 micro-batches, 4 a step: the third has 3, and the sixth
constexpr int kMicroBatches = 4;

inline const Arguments kLayerByLayer = {"--micro_batch_order", "vertical"};
inline const Arguments kFullWeights = {"--adapter", "none", "--learning_rate", "0.001"};

// Trains as so many ranks, each with its part of the micro-batches. Returns what each failed of.
std::vector<std::string> train_over_ranks(int ranks, const TinyJob& job, const std::string& name, Arguments more,
                                          const std::vector<std::string>& hosts = {});

// Returns what metrics.jsonl says of training, without times and memory.
std::vector<nlohmann::json> training_metrics_of(const std::filesystem::path& output);

// Returns the tensors of the result and of every checkpoint, and what the checkpoints say of the run but for its name.
std::map<std::string, std::string> results_of(const std::filesystem::path& output);

// Checks that two runs left the same results and metrics of training.
void check_same_results(const std::filesystem::path& one, const std::filesystem::path& several);

// Checks that each number of ranks leaves what one rank leaves.
void check_on_ranks(const TinyJob& job, const Arguments& more, std::initializer_list<int> numbers);

// A model whose matrices have several parts: those of the goldens are smaller than one.
class WideModel {
 public:
  WideModel();
  [[nodiscard]] Arguments arguments() const { return {"--base_model", folder_.path().string()}; }

 private:
  TemporaryFolder folder_;
};

// A job that answers prompts of a few words in up to six tokens. A function, a model and a program reward them, which
// has `rewards` for the completions of a round: they must be so many.
Arguments of_prompts(const TinyJob& job, const std::string& rl, const nlohmann::json& rewards);

// Trains a model of the goldens.
Arguments of_model(const std::string& name);

}  // namespace spillway::testing
