#include "job/reward_graph.h"

#include <algorithm>

namespace spillway::train {

RewardGraph build_reward_graph(const ModelBeside& beside, const infer::RewardRoom& room,
                               const TrainingGraph& training) {
  RewardGraph result;
  result.graph.name = "rewards";
  Builder builder(result.graph, {.name = "score"});
  builder.adopt(training.graph);
  ModelOptions options = beside.options;
  options.tokens = room.tokens;
  options.max_sequences = room.texts;
  options.sequence_len = room.tokens / std::max<int64_t>(1, room.texts);
  result.model = beside.model->build(builder, options);
  infer::append_token_scores(builder, result.model);
  return result;
}

}  // namespace spillway::train
