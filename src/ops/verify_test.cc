// Tests that the verifier reports each breach in graphs of real operations that were broken on purpose.
#include "graph/verify.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/reduce_scatter/reduce_scatter.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/testing.h"
#include "ops/zero/zero.h"

using namespace spillway;

namespace {

// A graph of one linear layer with its loss, gradient accumulation and AdamW.
struct Training {
  Graph graph{.name = "training", .axes = {{"tokens", 4}}};
  ValueId x, w, m, v, accumulator, rate, gradient, loss, hidden;

  Training() {
    Builder b(graph);
    const ValueType weight{DType::kF32, {3, 3}};
    x = b.input("x", {DType::kF32, {4, 3}, kTokenAxis}, ValueKind::kBatch);
    const ValueId labels = b.input("labels", {DType::kI32, {4}, kTokenAxis}, ValueKind::kBatch);
    const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
    rate = b.input("rate", {DType::kF32, {1}}, ValueKind::kBatch);
    const ValueId step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
    w = b.input("w", weight, ValueKind::kTrainableWeight);
    const ValueId head = b.input("head", {DType::kF32, {5, 3}}, ValueKind::kFrozenWeight);
    m = b.input("m", weight, ValueKind::kOptimizerState);
    v = b.input("v", weight, ValueKind::kOptimizerState);
    accumulator = b.input("w.grad", weight, ValueKind::kGradient);
    hidden = ops::linear(b, x, w);
    loss = ops::linear_cross_entropy(b, hidden, head, labels, scale, ops::LossGradients::kInput).loss;
    b.result(loss);
    std::vector<WeightGradient> gradients = {{.weight = w, .accumulator = accumulator}};
    append_backward(b, loss, gradients, ops::add);
    gradient = gradients[0].gradient;
    b.begin_section(update_section());
    ops::kAdamw.update(b, {.weight = w, .states = {m, v}, .gradient = gradient, .learning_rate = rate, .step = step},
                       {});
    b.update(gradient, ops::zero(b, gradient));
  }

  [[nodiscard]] bool reports(std::string_view text) const {
    const std::vector<std::string> found = verify(graph);
    const bool is_there = std::any_of(found.begin(), found.end(),
                                      [&](const std::string& line) { return line.find(text) != std::string::npos; });
    if (!is_there) {
      for (const std::string& line : found) MESSAGE(line);
    }
    return is_there;
  }
};

}  // namespace

TEST_CASE("a training graph of accumulation, backward and update is well formed") {
  const Training training;
  for (const std::string& violation : verify(training.graph)) FAIL_CHECK(violation);
  CHECK(training.graph.persistent_root(training.gradient) == training.accumulator);
}

TEST_CASE("ids out of range are reported, and nothing else is read") {
  Training t;
  t.graph.ops[0].inputs[0] = 99;
  CHECK(t.reports("operation 0 reads value 99, which does not exist"));
  t = Training();
  t.graph.ops[1].outputs[0] = -5;
  CHECK(t.reports("operation 1 writes value -5, which does not exist"));
  t = Training();
  t.graph.results.push_back(1000);
  CHECK(t.reports("result 1000 does not exist"));
  t = Training();
  t.graph.ops[0].block = 3;
  CHECK(t.reports("operation 0 is in block 3, which does not exist"));
  t = Training();
  t.graph.ops[1].section = 7;
  CHECK(t.reports("operation 1 is in section 7, which does not exist"));
  t = Training();
  t.graph.ops[0].def = nullptr;
  CHECK(t.reports("operation 0 has no description"));
  t = Training();
  t.graph.value(t.gradient).updates = 777;
  CHECK(t.reports("updates value 777, which does not exist"));
  t = Training();
  t.graph.value(t.hidden).producer = 50;
  CHECK(t.reports("is produced by operation 50, which does not exist"));
}

TEST_CASE("updates that lead in a circle are reported, and end") {
  Training t;
  REQUIRE(t.graph.value(t.gradient).updates == t.accumulator);
  t.graph.value(t.accumulator).updates = t.gradient;
  CHECK(t.reports("w.grad updates a later value"));
}

TEST_CASE("a result that nothing produces is reported") {
  Training t;
  t.graph.results.push_back(t.w);
  CHECK(t.reports("w is a result, but nothing produces it"));
}

TEST_CASE("two writers of one value, a wrong producer and a reader before its writer are reported") {
  Training t;
  t.graph.ops[2].outputs[0] = t.hidden;
  CHECK(t.reports("is written twice"));
  t = Training();
  t.graph.value(t.hidden).producer = 1;
  CHECK(t.reports("does not name operation 0 as its producer"));
  t = Training();
  t.graph.value(t.x).producer = 0;
  CHECK(t.reports("x names a producer that does not write it"));
  t = Training();
  t.graph.ops[0].inputs[0] = t.gradient;
  CHECK(t.reports("before it is written"));
}

TEST_CASE("types other than the inferred, equal names, sections out of order and short streams are reported") {
  Training t;
  t.graph.value(t.hidden).type.dtype = DType::kBF16;
  CHECK(t.reports("matmul.0 is bf16[4t, 3] instead of f32[4t, 3]"));
  t = Training();
  t.graph.value(t.w).type.shape = {3, 2};
  CHECK(t.reports("[matmul] expected 3 of a and b to be contracted"));
  t = Training();
  t.graph.value(t.w).name = t.graph.value(t.x).name;
  CHECK(t.reports("two values are called x"));
  t = Training();
  t.graph.ops[0].section = 2;
  CHECK(t.reports("goes back to an earlier section"));
  t = Training();
  t.graph.axes = {{"tokens", 8}};
  CHECK(t.reports("x follows tokens, but f32[4t, 3] has not 8 rows"));
  t = Training();
  t.graph.ops[1].outputs.pop_back();
  CHECK(t.reports("has 2 outputs instead of 3"));
}

TEST_CASE("updates of what does not persist, of another type, twice, or with a later reader are reported") {
  Training t;
  t.graph.value(t.gradient).updates = t.x;
  CHECK(t.reports("updates x, which is not persistent"));
  t = Training();
  t.graph.value(t.accumulator).type.dtype = DType::kBF16;
  CHECK(t.reports("updates a value of another type"));
  t = Training();
  t.graph.value(t.loss).updates = t.accumulator;
  CHECK(t.reports("w.grad is updated twice"));
  t = Training();
  t.graph.value(t.w).updates = t.gradient;
  CHECK(t.reports("w updates a later value"));
  t = Training();
  t.graph.value(t.m).updates = t.w;
  CHECK(t.reports("m updates a value, but nothing produces it"));
  t = Training();
  t.graph.ops.back().inputs[0] = t.w;  // after AdamW has written its next version
  CHECK(t.reports("reads w after its update"));
}

namespace {

// The sum of a gradient over two ranks: a part that is added to, gathered, and cleared.
struct SplitSum {
  Graph graph{.name = "split"};
  Builder b{graph, backward_section()};
  ValueId gradient = b.input("gradient", {DType::kF32, {100, 100}}, ValueKind::kBatch);
  ValueId part = b.input("part", {DType::kF32, {8192}}, ValueKind::kGradient);
  ValueId sum, whole;

  SplitSum() {
    b.split(part);
    sum = ops::reduce_scatter(b, gradient, part, 2);
    b.update(part, sum);
    b.begin_section(update_section());
    whole = ops::all_gather(b, sum, {100, 100}, 2);
    b.result(ops::squared_norm(b, whole));
    b.update(sum, ops::zero(b, sum));
  }
};

std::string first_violation(const Graph& graph) {
  const std::vector<std::string> found = verify(graph);
  return found.empty() ? "" : found.front();
}

}  // namespace

TEST_CASE("parts that collectives add to and make whole are fine, and keep being parts") {
  const SplitSum split;
  CHECK(first_violation(split.graph) == "");
  CHECK(split.graph.value(split.sum).split);
  CHECK_FALSE(split.graph.value(split.whole).split);
  CHECK(split.graph.values.back().split);  // the cleared part
}

TEST_CASE("the verifier reports parts that stand for whole values") {
  SUBCASE("a part beside a whole value of its size") {
    SplitSum split;
    const ValueId other = split.b.input("other", {DType::kF32, {8192}}, ValueKind::kBatch);
    (void)ops::add(split.b, other, split.sum);
    CHECK(first_violation(split.graph).find("takes parts for whole values") != std::string::npos);
  }
  SUBCASE("a part as a gradient") {
    SplitSum split;
    split.graph.value(split.part).split = false;
    CHECK(first_violation(split.graph).find("takes parts for whole values") != std::string::npos);
  }
  SUBCASE("a result of a part alone") {
    SplitSum split;
    split.b.result(ops::squared_norm(split.b, split.sum));
    CHECK(first_violation(split.graph).find("is a result, but a part") != std::string::npos);
  }
  SUBCASE("a whole value that is marked as a part") {
    SplitSum split;
    split.graph.value(split.whole).split = true;
    CHECK(first_violation(split.graph).find("is marked as a part") != std::string::npos);
  }
}

TEST_CASE("the verifier reports a collective where a rank may not come, or come twice") {
  SplitSum split;
  split.graph.sections[0].recomputable = true;
  CHECK(first_violation(split.graph).find("is a collective in a section that may run again") != std::string::npos);
}

TEST_CASE("collectives refuse parts of another size") {
  Graph graph;
  Builder b(graph);
  const ValueId whole = b.input("whole", {DType::kF32, {100, 100}}, ValueKind::kBatch);
  const ValueId part = b.input("part", {DType::kF32, {5000}}, ValueKind::kGradient);
  CHECK_THROWS_WITH((void)ops::reduce_scatter(b, whole, part, 2),
                    "[reduce_scatter] expected part as f32[8192], got f32[5000]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::all_gather(b, part, {100, 100}, 2),
                    "[all_gather] expected part as f32[8192], got f32[5000]; cast it or check the model's sizes");
}
