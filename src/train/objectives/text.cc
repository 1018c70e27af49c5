#include "train/objectives/text.h"

#include <cmath>

namespace spillway::train {
namespace {

// What each token predicts; negative: nothing.
constexpr LossColumn kColumns[] = {{{"labels", fill_typical_ids}, i32_per_token}};

Loss append(Builder& builder, const LossInputs& in) {
  const ops::CrossEntropy entropy =
      ops::linear_cross_entropy(builder, in.model.hidden, in.model.head, in.columns[0].value, in.scale, in.gradients);
  return {entropy.loss, {entropy.correct}};
}

std::vector<Metric> metrics(double loss, std::span<const double> sums, double targets) {
  const double mean = loss / targets;
  return {{"eval_loss", "eval_loss", mean},
          {"eval_perplexity", "perplexity", std::exp(mean)},
          {"eval_mean_token_accuracy", "token accuracy", sums[0] / targets, true}};
}

}  // namespace

const Objective kText{.name = "text", .columns = kColumns, .append = append, .metrics = metrics};

}  // namespace spillway::train
