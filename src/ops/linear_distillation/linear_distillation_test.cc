#include "ops/linear_distillation/linear_distillation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

struct TeacherCase {
  int64_t tokens, width, teacher_width, vocabulary;
  DType dtype;
  DistillationOptions options = {};
};

struct DistillationReference {
  double loss = 0, divergence = 0, cross_entropy = 0, correct = 0;
  Numbers dx, dw;
};

// A row of logits of one of the models, through its cap.
Numbers logits_of(const Numbers& x, const Numbers& w, int64_t token, int64_t width, int64_t vocabulary, double cap) {
  Numbers logits(static_cast<size_t>(vocabulary), 0);
  for (int64_t v = 0; v < vocabulary; ++v) {
    double& logit = nth(logits, v);
    for (int64_t d = 0; d < width; ++d) logit += nth(x, token * width + d) * nth(w, v * width + d);
    if (cap > 0) logit = cap * std::tanh(logit / cap);
  }
  return logits;
}

// Returns log softmax(logits / temperature).
Numbers log_softmax(const Numbers& logits, double temperature) {
  double total = 0;
  for (const double logit : logits) total += std::exp(logit / temperature);
  Numbers result = logits;
  for (double& logit : result) logit = logit / temperature - std::log(total);
  return result;
}

struct TeacherFixture {
  Graph graph;
  Distillation outputs;
  ValueId dx, dw;
  std::map<ValueId, Numbers> inputs;
  Numbers x, w, teacher_x, teacher_w, labels;
};

constexpr double kTeacherScale = 0.125;

DistillationReference teacher_reference(const TeacherCase& c, const TeacherFixture& f, int64_t rows) {
  const DistillationOptions& o = c.options;
  DistillationReference r{.dx = Numbers(static_cast<size_t>(rows * c.width), 0), .dw = Numbers(f.w.size(), 0)};
  for (int64_t t = 0; t < rows; ++t) {
    const auto label = static_cast<int64_t>(nth(f.labels, t));
    if (label < 0) continue;
    const Numbers logits = logits_of(f.x, f.w, t, c.width, c.vocabulary, o.logit_cap);
    const Numbers theirs = logits_of(f.teacher_x, f.teacher_w, t, c.teacher_width, c.vocabulary, o.teacher_logit_cap);
    const Numbers plain = log_softmax(logits, 1), log_p = log_softmax(logits, o.temperature),
                  log_q = log_softmax(theirs, o.temperature);
    r.cross_entropy -= nth(plain, label);
    if (*std::max_element(logits.begin(), logits.end()) == nth(logits, label)) ++r.correct;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      const double q = std::exp(nth(log_q, v));
      r.divergence += q * (nth(log_q, v) - nth(log_p, v));
      const double part = o.logit_cap > 0 ? nth(logits, v) / o.logit_cap : 0;
      const double g = kTeacherScale * (1 - part * part) *
                       (o.divergence_weight / o.temperature * (std::exp(nth(log_p, v)) - q) +
                        o.cross_entropy_weight * (std::exp(nth(plain, v)) - (v == label)));
      for (int64_t d = 0; d < c.width; ++d) {
        nth(r.dx, t * c.width + d) += g * nth(f.w, v * c.width + d);
        nth(r.dw, v * c.width + d) += g * nth(f.x, t * c.width + d);
      }
    }
  }
  r.loss = kTeacherScale * (o.divergence_weight * r.divergence + o.cross_entropy_weight * r.cross_entropy);
  return r;
}

TeacherFixture teacher_fixture(const TeacherCase& c) {
  TeacherFixture f;
  f.graph.axes = {{"tokens", c.tokens}};
  Builder b(f.graph);
  f.x = rounded(random_numbers(c.tokens * c.width, 1), c.dtype);
  f.w = rounded(random_numbers(c.vocabulary * c.width, 2), c.dtype);
  f.teacher_x = rounded(random_numbers(c.tokens * c.teacher_width, 4), c.dtype);
  f.teacher_w = rounded(random_numbers(c.vocabulary * c.teacher_width, 5), c.dtype);
  f.labels = random_integers(c.tokens, 3, c.vocabulary);
  for (size_t i = 0; i < f.labels.size(); i += 3) f.labels[i] = -100;
  const DistillationOperands o{
      .x = b.input("x", {c.dtype, {c.tokens, c.width}, kTokenAxis}, ValueKind::kTrainableWeight),
      .w = b.input("w", {c.dtype, {c.vocabulary, c.width}}, ValueKind::kTrainableWeight),
      .teacher_x = b.input("teacher_x", {c.dtype, {c.tokens, c.teacher_width}, kTokenAxis}, ValueKind::kFrozenWeight),
      .teacher_w = b.input("teacher_w", {c.dtype, {c.vocabulary, c.teacher_width}}, ValueKind::kFrozenWeight),
      .labels = b.input("labels", {DType::kI32, {c.tokens}, kTokenAxis}, ValueKind::kBatch),
      .scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch)};
  f.inputs = {{o.x, f.x},
              {o.w, f.w},
              {o.teacher_x, f.teacher_x},
              {o.teacher_w, f.teacher_w},
              {o.labels, f.labels},
              {o.scale, {kTeacherScale}}};
  f.outputs = linear_distillation(b, o, LossGradients::kInputAndWeight, c.options);
  std::vector<WeightGradient> gradients = {{.weight = o.x, .dtype = c.dtype}, {.weight = o.w}};
  append_backward(b, f.outputs.loss, gradients, ops::add);
  f.dx = gradients[0].gradient;
  f.dw = gradients[1].gradient;
  return f;
}

}  // namespace

TEST_CASE("the divergence from a teacher and its gradients equal their formula in float64") {
  const DistillationOptions mixed{.temperature = 2, .divergence_weight = 0.9, .cross_entropy_weight = 0.3};
  DistillationOptions capped = mixed;
  capped.logit_cap = 1.5;
  capped.teacher_logit_cap = 2;
  // The last one takes several chunks, on a GPU and on the CPU.
  for (const TeacherCase& c : {TeacherCase{7, 5, 4, 11, DType::kF32},
                               {33, 24, 40, 77, DType::kBF16},
                               {1, 3, 2, 2, DType::kF32},
                               {9, 5, 7, 19, DType::kF32, mixed},
                               {33, 24, 8, 77, DType::kBF16, mixed},
                               {7, 5, 4, 11, DType::kF32, capped},
                               {600, 5, 6, 13, DType::kF32, mixed},
                               {26, 2, 2, 500'003, DType::kF32, mixed}}) {
    CAPTURE(c.tokens);
    CAPTURE(c.vocabulary);
    const TeacherFixture f = teacher_fixture(c);
    const double tolerance = c.dtype == DType::kBF16 ? 4e-3 : c.vocabulary < 1000 ? 2e-6 : 2e-5;
    for (const int64_t rows : {c.tokens, c.tokens / 2, int64_t{0}}) {
      const Run run(f.graph, f.inputs, {.threads = 2, .rows = {rows}});
      const DistillationReference want = teacher_reference(c, f, rows);
      check_close(run.numbers(f.outputs.loss), {want.loss}, DType::kF32, 1e-5);
      check_close(run.numbers(f.outputs.divergence), {want.divergence}, DType::kF32, 1e-5);
      check_close(run.numbers(f.outputs.cross_entropy), {want.cross_entropy}, DType::kF32, 1e-5);
      CHECK(run.numbers(f.outputs.correct) == Numbers{want.correct});
      check_close(run.numbers(f.dx), want.dx, c.dtype, tolerance);
      check_close(run.numbers(f.dw), want.dw, DType::kF32, tolerance);
    }
  }
}

TEST_CASE("a model that equals its teacher diverges by nothing, however sure both are") {
  TeacherCase c{9, 5, 5, 19, DType::kF32};
  TeacherFixture f = teacher_fixture(c);
  for (double& number : f.x) number *= 40;
  for (auto& [value, numbers] : f.inputs) {
    const std::string& name = f.graph.value(value).name;
    if (name == "x" || name == "teacher_x") numbers = f.x;
    if (name == "teacher_w") numbers = f.w;
  }
  const Run run(f.graph, f.inputs, {.threads = 2});
  CHECK(run.numbers(f.outputs.divergence) == Numbers{0});
  CHECK(run.numbers(f.dx) == Numbers(f.x.size(), 0));
}

TEST_CASE("the divergence from a teacher has the same bits on one thread and on three") {
  const TeacherFixture f =
      teacher_fixture({33, 24, 40, 77, DType::kBF16, {.temperature = 2, .cross_entropy_weight = 0.3}});
  const Run one(f.graph, f.inputs, {.threads = 1}), three(f.graph, f.inputs, {.threads = 3});
  CHECK((one == three));
}

TEST_CASE("a teacher of another vocabulary is an error") {
  Graph graph{.axes = {{"tokens", 2}}};
  Builder b(graph);
  const DistillationOperands o{
      .x = b.input("x", {DType::kF32, {2, 3}, kTokenAxis}, ValueKind::kTrainableWeight),
      .w = b.input("w", {DType::kF32, {5, 3}}, ValueKind::kFrozenWeight),
      .teacher_x = b.input("teacher_x", {DType::kF32, {2, 4}, kTokenAxis}, ValueKind::kFrozenWeight),
      .teacher_w = b.input("teacher_w", {DType::kF32, {6, 4}}, ValueKind::kFrozenWeight),
      .labels = b.input("labels", {DType::kI32, {2}, kTokenAxis}, ValueKind::kBatch),
      .scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch)};
  CHECK_THROWS_AS((void)linear_distillation(b, o, LossGradients::kInput, {}), InputError);
}
