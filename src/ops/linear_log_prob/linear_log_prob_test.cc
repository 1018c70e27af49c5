#include "ops/linear_log_prob/linear_log_prob.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

struct LogProbCase {
  int64_t tokens, width, vocabulary;
  DType dtype = DType::kF32;
  double temperature = 1;
  int64_t every = 0;  // of so many tokens one has a label; 0: two of three have
  double cap = 0;
  int64_t top = 0;
};

// The numbers of each token's distribution; zeros without a label.
struct Distribution {
  double log_prob = 0, entropy = 0, mean_logit = 0, is_likeliest = 0, log_square_sum = 0, top_entropy = 0;
};

std::vector<Distribution> distributions(const LogProbCase& c, const std::vector<Numbers>& in) {
  const auto rows = static_cast<int64_t>(in[2].size());
  std::vector<Distribution> result;
  for (int64_t t = 0; t < rows; ++t) {
    const auto label = static_cast<int64_t>(nth(in[2], t));
    if (label < 0) {
      result.emplace_back();
      continue;
    }
    Numbers logits(static_cast<size_t>(c.vocabulary), 0);
    double total = 0;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double& logit = nth(logits, v);
      for (int64_t d = 0; d < c.width; ++d) logit += nth(in[0], t * c.width + d) * nth(in[1], v * c.width + d);
      if (c.cap > 0) logit = c.cap * std::tanh(logit / c.cap);
      logit /= c.temperature;
      total += std::exp(logit);
    }
    Distribution d;
    double squares = 0;
    for (const double logit : logits) {
      const double p = std::exp(logit) / total;
      d.entropy -= p * (logit - std::log(total));
      d.mean_logit += logit / static_cast<double>(c.vocabulary);
      squares += p * p;
    }
    const double own = nth(logits, label);
    d.log_prob = own - std::log(total);
    d.is_likeliest = own == *std::max_element(logits.begin(), logits.end()) ? 1 : 0;
    d.log_square_sum = std::log(squares);
    std::sort(logits.begin(), logits.end(), std::greater<>());
    logits.resize(static_cast<size_t>(std::min(c.top, c.vocabulary)));
    total = 0;
    for (const double logit : logits) total += std::exp(logit);
    for (const double logit : logits) d.top_entropy -= std::exp(logit) / total * (logit - std::log(total));
    result.push_back(d);
  }
  return result;
}

enum class Wanted { kLogProb, kEntropy, kBoth };

OperationCase make_case(const LogProbCase& c, Wanted wanted, bool weight = true) {
  Numbers labels = random_integers(c.tokens, 3, c.vocabulary);
  for (int64_t i = 0; i < c.tokens; ++i) {
    const bool has_label = c.every == 0 ? i % 3 != 0 : i % c.every == 1;
    if (!has_label) nth(labels, i) = -100;
  }
  const bool is_bf16 = c.dtype == DType::kBF16;
  return {.tokens = c.tokens,
          .inputs = {{{c.dtype, {c.tokens, c.width}, kTokenAxis}, random_numbers(c.tokens * c.width, 1)},
                     {{c.dtype, {c.vocabulary, c.width}}, random_numbers(c.vocabulary * c.width, 2), weight},
                     {{DType::kI32, {c.tokens}, kTokenAxis}, labels, false}},
          .build =
              [c, wanted](Builder& b, const std::vector<ValueId>& in) {
                const LogProb result = linear_log_prob(b, in[0], in[1], in[2], c.temperature, c.cap);
                if (wanted == Wanted::kBoth) return add(b, result.log_prob, result.entropy);
                return wanted == Wanted::kLogProb ? result.log_prob : result.entropy;
              },
          .reference =
              [c, wanted](const std::vector<Numbers>& in) {
                Numbers result;
                for (const Distribution& d : distributions(c, in)) {
                  result.push_back(wanted == Wanted::kBoth      ? d.log_prob + d.entropy
                                   : wanted == Wanted::kLogProb ? d.log_prob
                                                                : d.entropy);
                }
                return result;
              },
          .tolerance = 4e-6,
          .gradient_tolerance = is_bf16 ? 1e-2 : 2e-5};
}

}  // namespace

TEST_CASE("log-probabilities, entropies and their gradients equal those in float64") {
  for (const Wanted wanted : {Wanted::kLogProb, Wanted::kEntropy, Wanted::kBoth}) {
    CAPTURE(static_cast<int>(wanted));
    check_operation(make_case({7, 5, 11}, wanted));
    check_operation(make_case({9, 6, 37, DType::kF32, 0.7}, wanted));
    check_operation(make_case({9, 8, 40, DType::kBF16}, wanted, false));
    check_operation(make_case({.tokens = 9, .width = 6, .vocabulary = 37, .temperature = 0.7, .cap = 1.5}, wanted));
  }
  check_operation(
      make_case({.tokens = 600, .width = 3, .vocabulary = 5, .every = 20}, Wanted::kBoth));  // several chunks on a GPU
}

TEST_CASE("what metrics want of each token's distribution equals that in float64") {
  struct Output {
    ValueId LogProb::*built;
    double Distribution::*want;
  };
  for (const Output& output : {Output{&LogProb::mean_logit, &Distribution::mean_logit},
                               Output{&LogProb::is_likeliest, &Distribution::is_likeliest},
                               Output{&LogProb::log_square_sum, &Distribution::log_square_sum},
                               Output{&LogProb::top_entropy, &Distribution::top_entropy}}) {
    for (LogProbCase c : {LogProbCase{7, 5, 11}, {20, 6, 3, DType::kF32, 0.7}, {9, 8, 700, DType::kBF16}}) {
      c.top = 5;
      CAPTURE(c.vocabulary);
      OperationCase test = make_case(c, Wanted::kBoth);
      for (OperandCase& operand : test.inputs) operand.differentiate = false;
      test.build = [=](Builder& b, const std::vector<ValueId>& in) {
        return linear_log_prob(b, in[0], in[1], in[2], c.temperature, 0, c.top).*output.built;
      };
      test.reference = [=](const std::vector<Numbers>& in) {
        Numbers result;
        for (const Distribution& d : distributions(c, in)) result.push_back(d.*output.want);
        return result;
      };
      check_operation(test);
    }
  }
}

TEST_CASE("a label is the likeliest where another token is as likely, and not where one is likelier") {
  Graph graph{.axes = {{"tokens", 3}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 1}, kTokenAxis}, ValueKind::kFrozenWeight);
  const ValueId w = b.input("w", {DType::kF32, {3, 1}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {3}, kTokenAxis}, ValueKind::kBatch);
  const LogProb result = linear_log_prob(b, x, w, labels);
  const Run run(graph, {{x, {1, 1, 1}}, {w, {2, 2, 1}}, {labels, {0, 1, 2}}});
  CHECK(run.numbers(result.is_likeliest) == Numbers{1, 1, 0});
}

TEST_CASE("a gradient through what has none is refused") {
  Graph graph{.axes = {{"tokens", 2}}};
  Builder b(graph);
  const ValueType numbers{DType::kF32, {2}, kTokenAxis};
  const ValueId x = b.input("x", {DType::kF32, {2, 3}, kTokenAxis}, ValueKind::kTrainableWeight);
  const ValueId w = b.input("w", {DType::kF32, {5, 3}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {2}, kTokenAxis}, ValueKind::kBatch);
  const LogProb result = linear_log_prob(b, x, w, labels);
  const ValueId loss = weighted_sum(b, add(b, result.log_prob, result.log_square_sum),
                                    b.input("coefficients", numbers, ValueKind::kBatch));
  std::vector<WeightGradient> gradients = {{.weight = x}};
  CHECK_THROWS_WITH(
      append_backward(b, loss, gradients, add),
      "[linear_log_prob] expected a loss of log-probabilities and entropies, got one of output 5; detach it");
}

TEST_CASE("several chunks of logits give what one gives") {
  const LogProbCase c{40, 4, 1'000'003};
  const OperationCase test = make_case(c, Wanted::kBoth);
  Graph graph{.axes = {{"tokens", c.tokens}}};
  Builder b(graph);
  std::map<ValueId, Numbers> inputs;
  std::vector<ValueId> ids;
  for (const OperandCase& operand : test.inputs) {
    ids.push_back(b.input(fmt::format("input {}", ids.size()), operand.type, ValueKind::kFrozenWeight));
    inputs[ids.back()] = operand.numbers;
  }
  const LogProb result = linear_log_prob(b, ids[0], ids[1], ids[2]);
  const Run run(graph, inputs, {.threads = 2});
  Numbers log_probs, entropies;
  for (const Distribution& d :
       distributions(c, {test.inputs[0].numbers, test.inputs[1].numbers, test.inputs[2].numbers})) {
    log_probs.push_back(d.log_prob);
    entropies.push_back(d.entropy);
  }
  check_close(run.numbers(result.log_prob), log_probs, DType::kF32, 2e-6);
  check_close(run.numbers(result.entropy), entropies, DType::kF32, 2e-5);
}

TEST_CASE("the fused cross-entropy is the special case of equal weights: loss and gradients are the same") {
  const LogProbCase c{33, 24, 77};
  const OperationCase test = make_case(c, Wanted::kLogProb);
  Graph graph{.axes = {{"tokens", c.tokens}}};
  Builder b(graph);
  const ValueId x = b.input("x", test.inputs[0].type, ValueKind::kTrainableWeight);
  const ValueId w = b.input("w", test.inputs[1].type, ValueKind::kTrainableWeight);
  const ValueId labels = b.input("labels", test.inputs[2].type, ValueKind::kBatch);
  const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId minus_scale = b.input("minus", {DType::kF32, {c.tokens}, kTokenAxis}, ValueKind::kBatch);
  const std::map<ValueId, Numbers> inputs = {{x, test.inputs[0].numbers},
                                             {w, test.inputs[1].numbers},
                                             {labels, test.inputs[2].numbers},
                                             {scale, {0.125}},
                                             {minus_scale, Numbers(static_cast<size_t>(c.tokens), -0.125)}};
  Graph other = graph;
  Builder separate(other);
  const ValueId fused_loss = linear_cross_entropy(b, x, w, labels, scale, LossGradients::kInputAndWeight).loss;
  const ValueId loss = weighted_sum(separate, linear_log_prob(separate, x, w, labels).log_prob, minus_scale);
  std::vector<WeightGradient> fused = {{.weight = x}, {.weight = w}}, own = fused;
  append_backward(b, fused_loss, fused, add);
  append_backward(separate, loss, own, add);
  const Run want(graph, inputs), got(other, inputs);
  check_close(got.numbers(loss), want.numbers(fused_loss), DType::kF32, 2e-6);
  for (size_t i = 0; i < fused.size(); ++i)
    check_close(got.numbers(own[i].gradient), want.numbers(fused[i].gradient), DType::kF32, 4e-6);
}

TEST_CASE("a token that is certain has an entropy of zero, and no infinity") {
  Graph graph{.axes = {{"tokens", 1}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {1, 1}, kTokenAxis}, ValueKind::kFrozenWeight);
  const ValueId w = b.input("w", {DType::kF32, {3, 1}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {1}, kTokenAxis}, ValueKind::kBatch);
  const LogProb result = linear_log_prob(b, x, w, labels);
  const Run run(graph, {{x, {100}}, {w, {10, 0, -10}}, {labels, {0}}});
  CHECK(run.numbers(result.log_prob) == Numbers{0});
  CHECK(run.numbers(result.entropy) == Numbers{0});
}
