#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

struct Case {
  int64_t tokens, width, vocabulary;
  DType dtype;
  double cap = 0;
  double smoothing = 0;
};

struct LossReference {
  double loss = 0;
  Numbers dx, dw;
  double correct = 0;
};

// Returns the token with the largest logit.
int64_t likeliest(const Case& c, const Numbers& x, const Numbers& w, int64_t token) {
  int64_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t v = 0; v < c.vocabulary; ++v) {
    double logit = 0;
    for (int64_t d = 0; d < c.width; ++d) logit += nth(x, token * c.width + d) * nth(w, v * c.width + d);
    if (logit > most) most = logit, best = v;
  }
  return best;
}

LossReference reference(const Case& c, const Numbers& x, const Numbers& w, const Numbers& labels, double scale,
                        int64_t rows) {
  LossReference r{0, Numbers(static_cast<size_t>(rows * c.width), 0), Numbers(w.size(), 0)};
  for (int64_t t = 0; t < rows; ++t) {
    const auto label = static_cast<int64_t>(nth(labels, t));
    if (label < 0) continue;
    const double* row = x.data() + t * c.width;
    Numbers logits(static_cast<size_t>(c.vocabulary), 0);
    double total = 0;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double& logit = nth(logits, v);
      for (int64_t d = 0; d < c.width; ++d) logit += row[d] * nth(w, v * c.width + d);
      if (c.cap > 0) logit = c.cap * std::tanh(logit / c.cap);
      total += std::exp(logit);
    }
    double mean = 0;
    for (const double logit : logits) mean += logit / static_cast<double>(c.vocabulary);
    r.loss += scale * (std::log(total) - (1 - c.smoothing) * nth(logits, label) - c.smoothing * mean);
    if (*std::max_element(logits.begin(), logits.end()) == nth(logits, label)) ++r.correct;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      const double logit = nth(logits, v), part = c.cap > 0 ? logit / c.cap : 0;
      const double target = (1 - c.smoothing) * (v == label) + c.smoothing / static_cast<double>(c.vocabulary);
      const double g = scale * (std::exp(logit) / total - target) * (1 - part * part);
      for (int64_t d = 0; d < c.width; ++d) {
        nth(r.dx, t * c.width + d) += g * nth(w, v * c.width + d);
        nth(r.dw, v * c.width + d) += g * row[d];
      }
    }
  }
  return r;
}

struct Fixture {
  Graph graph;
  ValueId loss, correct, dx, dw;
  std::map<ValueId, Numbers> inputs;
  Numbers x, w, labels;
};

constexpr double kScale = 0.125;

Fixture make_fixture(const Case& c) {
  Fixture f;
  f.graph.axes = {{"tokens", c.tokens}};
  Builder b(f.graph);
  const ValueId x = b.input("x", {c.dtype, {c.tokens, c.width}, kTokenAxis}, ValueKind::kTrainableWeight);
  const ValueId w = b.input("w", {c.dtype, {c.vocabulary, c.width}}, ValueKind::kTrainableWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {c.tokens}, kTokenAxis}, ValueKind::kBatch);
  const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
  f.x = rounded(random_numbers(c.tokens * c.width, 1), c.dtype);
  f.w = rounded(random_numbers(c.vocabulary * c.width, 2), c.dtype);
  f.labels = random_integers(c.tokens, 3, c.vocabulary);
  for (size_t i = 0; i < f.labels.size(); i += 3) f.labels[i] = -100;
  for (size_t i = 1; i < f.labels.size(); i += 4)
    f.labels[i] = static_cast<double>(likeliest(c, f.x, f.w, static_cast<int64_t>(i)));
  f.inputs = {{x, f.x}, {w, f.w}, {labels, f.labels}, {scale, {kScale}}};
  const CrossEntropy entropy =
      linear_cross_entropy(b, x, w, labels, scale, LossGradients::kInputAndWeight, c.cap, c.smoothing);
  f.loss = entropy.loss;
  f.correct = entropy.correct;
  std::vector<WeightGradient> gradients = {{.weight = x, .dtype = c.dtype}, {.weight = w}};
  append_backward(b, f.loss, gradients, ops::add);
  f.dx = gradients[0].gradient;
  f.dw = gradients[1].gradient;
  return f;
}

}  // namespace

TEST_CASE("the fused loss and its gradients equal softmax cross-entropy in float64") {
  // The last two take several chunks, on a GPU and on the CPU.
  for (const Case& c : {Case{7, 5, 11, DType::kF32},
                        {33, 24, 77, DType::kBF16},
                        {1, 3, 2, DType::kF32},
                        {7, 5, 11, DType::kF32, 1.5},
                        {33, 24, 77, DType::kBF16, 2},
                        {7, 5, 11, DType::kF32, 0, 0.1},
                        {33, 24, 77, DType::kBF16, 2, 0.3},
                        {600, 5, 13, DType::kF32, 0, 1},
                        {600, 5, 13, DType::kF32},
                        {40, 4, 1'000'003, DType::kF32}}) {
    CAPTURE(c.tokens);
    CAPTURE(c.vocabulary);
    const Fixture f = make_fixture(c);
    // The gradient of bf16 logits is bf16; a product over a million columns loses digits in f32.
    const double tolerance = c.dtype == DType::kBF16 ? 4e-3 : c.vocabulary < 1000 ? 2e-6 : 2e-5;
    for (const int64_t rows : {c.tokens, c.tokens / 2, int64_t{0}}) {
      const Run run(f.graph, f.inputs, {.threads = 2, .rows = {rows}});
      const LossReference want = reference(c, f.x, f.w, f.labels, kScale, rows);
      check_close(run.numbers(f.loss), {want.loss}, DType::kF32, 2e-6);
      CHECK(run.numbers(f.correct) == Numbers{want.correct});
      check_close(run.numbers(f.dx), want.dx, c.dtype, tolerance);
      check_close(run.numbers(f.dw), want.dw, DType::kF32, tolerance);
    }
  }
}

TEST_CASE("the fused loss has the same bits on one thread and on three") {
  const Fixture f = make_fixture({33, 24, 77, DType::kBF16});
  const Run one(f.graph, f.inputs, {.threads = 1}), three(f.graph, f.inputs, {.threads = 3});
  CHECK((one == three));
}

TEST_CASE("a gradient that was not asked for is named") {
  Graph graph{.axes = {{"tokens", 2}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 3}, kTokenAxis}, ValueKind::kTrainableWeight);
  const ValueId w = b.input("w", {DType::kF32, {4, 3}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {2}, kTokenAxis}, ValueKind::kBatch);
  const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId loss = linear_cross_entropy(b, x, w, labels, scale, LossGradients::kNone).loss;
  std::vector<WeightGradient> gradients = {{.weight = x}};
  CHECK_THROWS_WITH_AS(
      append_backward(b, loss, gradients, ops::add),
      "[linear_cross_entropy] expected the gradient of x to be asked for; build it with more LossGradients",
      InputError);
}
