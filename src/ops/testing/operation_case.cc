// Checks of one operation: numbers, gradients, rows, threads and places.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "graph/autodiff.h"
#include "graph/verify.h"
#include "ops/add/add.h"
#include "ops/testing/harness.h"

namespace spillway::ops::testing {

namespace {

// A case as a graph, with its backward pass if something is to be differentiated.
struct CaseGraph {
  Graph graph;
  std::vector<ValueId> inputs;
  ValueId output = kNone, coefficients = kNone;
  std::vector<WeightGradient> gradients;
  std::map<ValueId, Numbers> numbers;

  CaseGraph(const OperationCase& test, bool accumulate) {
    graph.axes = {{"tokens", test.tokens}};
    if (test.rows > 0) graph.axes.push_back({"rows", test.rows});
    Builder b(graph);
    for (size_t i = 0; i < test.inputs.size(); ++i) {
      const OperandCase& operand = test.inputs[i];
      inputs.push_back(b.input(fmt::format("in{}", i), operand.type,
                               operand.differentiate ? ValueKind::kTrainableWeight : ValueKind::kBatch));
      numbers[inputs[i]] = operand.numbers;
      if (operand.differentiate) add_gradient(b, operand, inputs[i], accumulate && !operand.type.follows_axis());
    }
    output = test.build(b, inputs);
    if (gradients.empty()) return;
    if (test.is_loss) {
      append_backward(b, output, gradients, add);
      return;
    }
    const ValueType type = b.type(output);
    coefficients = b.input("coefficients", type, ValueKind::kBatch);
    numbers[coefficients] = rounded(random_numbers(type.shape.elems(), 99), type.dtype);
    append_backward(b, weighted_sum(b, output, coefficients), gradients, add);
  }

  void add_gradient(Builder& b, const OperandCase& operand, ValueId weight, bool accumulate) {
    const DType dtype = operand.type.follows_axis() ? operand.type.dtype : DType::kF32;
    WeightGradient gradient{.weight = weight, .dtype = dtype};
    if (accumulate) {
      const ValueType type{dtype, operand.type.shape, operand.type.axis};
      gradient.accumulator = b.input(fmt::format("sum{}", gradients.size()), type, ValueKind::kGradient);
      numbers[gradient.accumulator] = random_numbers(type.shape.elems(), 100 + gradients.size());
    }
    gradients.push_back(gradient);
  }
};

Numbers numbers_for(const OperandCase& operand, const RowsOf& rows) {
  Numbers numbers = operand.numbers;
  for (double& number : numbers) {
    if (operand.at_most_rows) number = std::min(number, static_cast<double>(nth(rows, operand.rows_of)));
  }
  return numbers;
}

std::vector<Numbers> reference_inputs(const OperationCase& test, const RowsOf& rows) {
  std::vector<Numbers> inputs;
  for (const OperandCase& operand : test.inputs) {
    inputs.push_back(rounded(numbers_for(operand, rows), operand.type.dtype));
    inputs.back().resize(static_cast<size_t>(cut_to_rows(operand.type, rows).elems()));
  }
  return inputs;
}

// Returns d sum(coefficients * reference) / d inputs[operand][element].
double central_difference(const OperationCase& test, std::vector<Numbers> inputs, size_t operand, size_t element,
                          const Numbers& coefficients) {
  constexpr double kStep = 1e-4;
  double difference = 0;
  for (const double step : {kStep, -kStep}) {
    std::vector<Numbers> moved = inputs;
    moved[operand][element] += step;
    const Numbers output = test.reference(moved);
    for (size_t i = 0; i < output.size(); ++i) difference += (step > 0 ? 1 : -1) * output[i] * coefficients[i];
  }
  return difference / (2 * kStep);
}

void check_gradients(const OperationCase& test, const CaseGraph& built, const Run& run, const RowsOf& rows) {
  const std::vector<Numbers> inputs = reference_inputs(test, rows);
  const Numbers coefficients = test.is_loss ? Numbers{1} : run.numbers(built.coefficients);
  size_t which = 0;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    if (!test.inputs[i].differentiate) continue;
    CAPTURE(i);
    const WeightGradient& gradient = built.gradients[which++];
    const Numbers all = run.numbers(gradient.gradient);
    const Numbers started = gradient.accumulator == kNone ? Numbers() : run.numbers(gradient.accumulator);
    const size_t stride = std::max<size_t>(1, all.size() / 60);  // a sample, so that large tensors stay cheap
    Numbers got, want;
    for (size_t element = 0; element < all.size(); element += stride) {
      got.push_back(all[element]);
      want.push_back(central_difference(test, inputs, i, element, coefficients));
      if (!started.empty()) want.back() += started[element];
    }
    check_close(got, want, built.graph.value(gradient.gradient).type.dtype, test.gradient_tolerance);
  }
}

// Checks that what has been added to accumulators is, bit for bit, the gradients of the same case without them.
void check_added_once(const CaseGraph& alone, const CaseGraph& built, const Run& run, const RowsOf& rows) {
  const Run run_alone(alone.graph, alone.numbers, {.rows = rows});
  for (size_t i = 0; i < built.gradients.size(); ++i) {
    if (built.gradients[i].accumulator == kNone) continue;
    CAPTURE(i);
    const Numbers sum = run.numbers(built.gradients[i].gradient), started = run.numbers(built.gradients[i].accumulator);
    Numbers want = run_alone.numbers(alone.gradients[i].gradient);
    for (size_t e = 0; e < want.size(); ++e) want[e] = static_cast<float>(started[e]) + static_cast<float>(want[e]);
    const bool same_bits = sum == want;
    CHECK(same_bits);
  }
}

void fill_inputs(const OperationCase& test, CaseGraph& built, const RowsOf& rows) {
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    built.numbers[built.inputs[i]] = numbers_for(test.inputs[i], rows);
  }
}

// `alone` is the same case without accumulators, if `built` has some, else null.
void check_rows(const OperationCase& test, CaseGraph& built, CaseGraph* alone, const RowsOf& rows) {
  fill_inputs(test, built, rows);
  if (alone != nullptr) fill_inputs(test, *alone, rows);
  for_each_instruction_set([&] {
    const Run run(built.graph, built.numbers, {.rows = rows});
    const Numbers want = test.reference(reference_inputs(test, rows));
    check_close(run.numbers(built.output), want, built.graph.value(built.output).type.dtype, test.tolerance);
    if (!built.gradients.empty()) check_gradients(test, built, run, rows);
    if (alone != nullptr && tested_device().adds_once()) check_added_once(*alone, built, run, rows);
  });
  const Run run(built.graph, built.numbers, {.rows = rows});
  const auto check_bits = [&](int threads, bool in_place) {
    CAPTURE(threads);
    CAPTURE(in_place);
    const bool same_bits = Run(built.graph, built.numbers, {threads, rows, in_place}) == run;
    CHECK(same_bits);
  };
  if (rows != RowsOf{test.tokens, test.rows}) {  // some of the ways: what they find they find of all rows, too
    check_bits(2, false);
    check_bits(3, true);
    return;
  }
  for (const int threads : {1, 2, 3}) {
    for (const bool in_place : {false, true}) check_bits(threads, in_place);
  }
}

// Returns all rows, and fewer along each axis that an operand follows.
std::vector<RowsOf> rows_to_try(const OperationCase& test) {
  const RowsOf all = {test.tokens, test.rows};
  std::vector<RowsOf> result = {all};
  for (size_t axis = 0; axis < all.size(); ++axis) {
    const auto follows = [&](const OperandCase& operand) { return operand.type.axis == static_cast<AxisId>(axis); };
    if (std::none_of(test.inputs.begin(), test.inputs.end(), follows)) continue;
    for (const int64_t fewer : {all[axis] / 2, int64_t{1}, int64_t{0}}) {
      result.push_back(all);
      result.back()[axis] = fewer;
    }
  }
  return result;
}

}  // namespace

void check_bits_of_cpu(const Graph& graph, const std::map<ValueId, Numbers>& inputs, const RunOptions& options) {
  const Run run(graph, inputs, options);
  with_cpu([&] {
    for_each_instruction_set([&] {
      const bool same_bits = Run(graph, inputs, options) == run;
      CHECK(same_bits);
    });
  });
}

void check_operation(const OperationCase& test) {
  CaseGraph alone(test, false), accumulating(test, true);
  for (const bool accumulate : {false, true}) {
    CAPTURE(accumulate);
    CaseGraph& built = accumulate ? accumulating : alone;
    const auto accumulates = [](const WeightGradient& gradient) { return gradient.accumulator != kNone; };
    if (accumulate && std::none_of(built.gradients.begin(), built.gradients.end(), accumulates)) return;
    for (const std::string& violation : verify(built.graph)) FAIL_CHECK(violation);
    for (const RowsOf& rows : rows_to_try(test)) {
      CAPTURE(rows[0]);
      CAPTURE(rows[1]);
      check_rows(test, built, accumulate ? &alone : nullptr, rows);
    }
  }
}

}  // namespace spillway::ops::testing
