// The scores of a round's completions by the passes that run before training.
#include <algorithm>

#include "base/index.h"
#include "base/math.h"
#include "train/held_group.h"
#include "train/online/rollout_feed.h"
#include "train/rank_text.h"

namespace spillway::train {
namespace {

std::vector<float>& scores_of(Completion& completion, ScoredBy by) {
  if (by == ScoredBy::kValue) return completion.values;
  return by == ScoredBy::kReference ? completion.ref_logps : completion.old_logps;
}

// Returns the numbers of a completion's tokens in a micro-batch: those at the positions after `begin` that predict the
// tokens.
std::vector<float> at_predicting_positions(const std::vector<double>& numbers, size_t begin, size_t prompt,
                                           size_t tokens) {
  const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(begin + prompt - 1);
  return {first, first + static_cast<std::ptrdiff_t>(tokens)};
}

}  // namespace

// Fills the scores of each token by the passes that run before training. Each rank scores as many micro-batches at a
// time as its plan computes together.
void RolloutFeed::score(std::vector<Completion>& completions) {
  const std::vector<ScorePass> passes = online_.objective->passes();
  if (passes.empty()) return;
  const size_t most = most_of_prompt(completions);
  const int64_t all = std::ssize(completions),
                size = completions_per_micro_batch() * session_.planned().together(JobProgram::Kind::kScoring);
  const auto group = [&](int64_t i) { return subspan_of(completions, i * size, std::min(size, all - i * size)); };
  const auto scored = [&](int64_t i) {
    const std::span<Completion> own = group(i);
    score_group(own, most);
    TextWriter text;
    for (Completion& one : own)
      for (const ScorePass& pass : passes) text.add_list(scores_of(one, pass.by));
    return text.take();
  };
  ranks_.deal(div_ceil(all, size), 1, scored, [&](int64_t i, std::string_view text) {
    TextReader reader(text);
    for (Completion& one : group(i))
      for (const ScorePass& pass : passes) scores_of(one, pass.by) = reader.take_list<float>();
  });
}

void RolloutFeed::score_group(std::span<Completion> completions, size_t most_of_prompt) {
  const int64_t all = std::ssize(completions), size = completions_per_micro_batch();
  const auto batch = [&](int64_t i) { return subspan_of(completions, i * size, std::min(size, all - i * size)); };
  HeldGroup held;
  held.begin(session_.planned().together(JobProgram::Kind::kScoring));
  for (int64_t i = 0; i < div_ceil(all, size); ++i) {
    std::vector<const Completion*> rows;
    for (const Completion& one : batch(i)) rows.push_back(&one);
    fill(rows, most_of_prompt, nullptr);
    held.add(streams_);
  }
  session_.score(held.views());
  for (size_t i = 0; i < held.size(); ++i)
    take_scores(session_.scores(i), most_of_prompt, batch(static_cast<int64_t>(i)));
}

// Takes the scores of a micro-batch's completions from those of its tokens.
void RolloutFeed::take_scores(std::span<const std::vector<double>> scores, size_t most_of_prompt,
                              std::span<Completion> completions) const {
  const std::vector<ScorePass> passes = online_.objective->passes();
  size_t begin = 0;
  for (Completion& one : completions) {
    const TrainedCompletion row = trained(one, most_of_prompt);
    const size_t prompt = row.prompt.size(), tokens = static_cast<size_t>(row.tokens());
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      const ScoredBy by = passes[pass].by;
      scores_of(one, by) = at_predicting_positions(scores[pass], begin, prompt, tokens + (by == ScoredBy::kValue));
    }
    begin += prompt + one.ids.size();
  }
}

}  // namespace spillway::train
