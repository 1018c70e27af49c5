#include "infer/scoring/reward_program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/sizes.h"
#include "ops/matmul/matmul.h"

namespace spillway::infer {
namespace {

// The texts of a run, by their indices in the list.
using Group = std::vector<size_t>;

// Splits the texts into groups in their order, as many in each as there is room for.
std::vector<Group> groups_of(std::span<const std::vector<int32_t>> texts, const RewardRoom& room) {
  std::vector<Group> groups;
  int64_t tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t length = std::ssize(texts[i]);
    if (length == 0 || length > room.tokens) continue;
    const bool fits = !groups.empty() && tokens + length <= room.tokens && std::ssize(groups.back()) < room.texts;
    if (!fits) {
      groups.emplace_back();
      tokens = 0;
    }
    groups.back().push_back(i);
    tokens += length;
  }
  return groups;
}

class ModelReward final : public rewards::RewardFunction {
 public:
  ModelReward(std::shared_ptr<const RewardModel> model, std::shared_ptr<RewardProgram> program, bool reads_ids)
      : model_(std::move(model)), program_(std::move(program)), reads_ids_(reads_ids) {}

  [[nodiscard]] rewards::RewardOutput evaluate(const rewards::RewardInput& input) override {
    const bool has_ids = reads_ids_ && !input.prompt_ids.empty();
    std::vector<std::vector<int32_t>> texts;
    for (size_t i = 0; i < input.completions.size(); ++i)
      texts.push_back(has_ids ? ids_of(input, i) : model_->tokens_of(input.prompts[i], input.completions[i]));
    rewards::RewardOutput output{.rewards = score_texts(*program_, texts, has_ids ? std::nullopt : model_->padding())};
    const auto none = std::count(output.rewards.begin(), output.rewards.end(), std::nullopt);
    if (none > 0 && !std::exchange(has_warned_, true))
      log_warning(
          "{} of {} completions have no reward of {}: their texts are empty, or of more tokens than planned for", none,
          texts.size(), model_->folder());
    return output;
  }

 private:
  static std::vector<int32_t> ids_of(const rewards::RewardInput& input, size_t i) {
    std::vector<int32_t> ids = input.prompt_ids[i];
    ids.insert(ids.end(), input.completion_ids[i].begin(), input.completion_ids[i].end());
    return ids;
  }

  std::shared_ptr<const RewardModel> model_;
  std::shared_ptr<RewardProgram> program_;
  bool reads_ids_, has_warned_ = false;
};

}  // namespace

void append_token_scores(Builder& builder, const ModelGraph& model) {
  builder.result(ops::matmul(builder, model.hidden, model.head, {.transpose_b = true, .out_dtype = DType::kF32}));
}

std::vector<std::optional<double>> score_texts(RewardProgram& program, std::span<const std::vector<int32_t>> texts,
                                               std::optional<int32_t> padding) {
  std::vector<std::optional<double>> scores(texts.size());
  size_t longest = 0;
  for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
  if (longest == 0) return scores;
  const RewardRoom room = program.prepare(static_cast<int64_t>(longest), std::ssize(texts));
  const std::vector<Group> groups = groups_of(texts, room);
  std::vector<data::MicroBatch> batches(groups.size());
  for (size_t g = 0; g < groups.size(); ++g)
    for (const size_t i : groups[g]) data::add_sequence(batches[g], {}, texts[i]);
  const std::vector<std::vector<float>> of_tokens = program.run(batches);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t k = 0; k < groups[g].size(); ++k) {
      const size_t i = groups[g][k];
      scores[i] = nth(of_tokens[g], batches[g].seq_offsets[k] + static_cast<int64_t>(scored_token(texts[i], padding)));
    }
  }
  return scores;
}

std::unique_ptr<rewards::RewardFunction> model_reward(std::shared_ptr<const RewardModel> model,
                                                      std::shared_ptr<RewardProgram> program, bool reads_ids) {
  return std::make_unique<ModelReward>(std::move(model), std::move(program), reads_ids);
}

}  // namespace spillway::infer
