#include "ops/testing.h"

#include <doctest/doctest.h>

#include "ops/simd.h"  // before Highway: it names the instruction sets

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/index.h"
#include "base/parallel.h"
#include "base/random.h"
#include "graph/autodiff.h"
#include "graph/verify.h"
#include "ops/add/add.h"

namespace spillway::ops::testing {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};

// A buffer of exact bytes, 64-byte aligned, between two guards; filled with 0xFF, which is NaN in every float type.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : storage_(static_cast<size_t>(bytes) + 3 * kGuardBytes, kGuard), bytes_(bytes) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
    offset_ = kGuardBytes + (64 - address % 64) % 64;
    std::fill_n(data(), bytes_, std::byte{0xFF});
  }
  GuardedBuffer(GuardedBuffer&&) = default;

  [[nodiscard]] std::byte* data() { return storage_.data() + offset_; }
  [[nodiscard]] const std::byte* data() const { return storage_.data() + offset_; }
  [[nodiscard]] std::vector<std::byte> content() const { return {data(), data() + bytes_}; }
  [[nodiscard]] bool guards_hold() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(storage_.data(), data(), is_guard) &&
           std::all_of(data() + bytes_, storage_.data() + storage_.size(), is_guard);
  }

 private:
  std::vector<std::byte> storage_;
  size_t offset_;
  int64_t bytes_;
};

void write_number(double number, DType dtype, std::byte* to) {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(number));
    case DType::kBF16:
      return put(to_bf16(static_cast<float>(number)));
    case DType::kI32:
      return put(static_cast<int32_t>(number));
    case DType::kI64:
      return put(static_cast<int64_t>(number));
    case DType::kI8:
      return put(static_cast<int8_t>(number));
    case DType::kU8:
      return put(static_cast<uint8_t>(number));
    default:
      FAIL("no numbers of " << name_of(dtype));
  }
}

double read_number(DType dtype, const std::byte* from) {
  const auto get = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kF32:
      return get(float{});
    case DType::kBF16:
      return to_float(get(bf16{}));
    case DType::kI32:
      return get(int32_t{});
    case DType::kI64:
      return static_cast<double>(get(int64_t{}));
    case DType::kI8:
      return static_cast<double>(get(int8_t{}));
    case DType::kU8:
      return static_cast<double>(get(uint8_t{}));
    default:
      FAIL("no numbers of " << name_of(dtype));
      return 0;
  }
}

Numbers read_numbers(const GuardedBuffer& buffer, DType dtype, int64_t count) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(read_number(dtype, buffer.data() + i * size_of(dtype)));
  return numbers;
}

void weighted_sum_cpu(const KernelArgs& args) {
  double sum = 0;
  const TensorView &y = args.inputs[0], &c = args.inputs[1];
  for (int64_t i = 0; i < y.elems(); ++i) {
    const int64_t at = i * size_of(y.dtype);
    sum += read_number(y.dtype, y.as<std::byte>() + at) * read_number(c.dtype, c.as<std::byte>() + at);
  }
  *args.outputs[0].as<float>() = static_cast<float>(sum);
}

const OpDef kWeightedSum{.name = "weighted_sum",
                         .infer =
                             [](TypeList, const Attributes&) {
                               return std::vector<ValueType>{{DType::kF32, {1}}};
                             },
                         .vjp = [](VjpContext& context) { context.add(0, context.input(1)); },
                         .cost = [](TypeList, TypeList, const Attributes&) { return Cost{.bytes = 1}; },
                         .cpu = weighted_sum_cpu};

class Cpu : public TestDevice {
 public:
  int64_t workspace_bytes(const Graph& graph, OpId id, int threads) override {
    return workspace_of(graph, id, threads);
  }
  void run(const OpDef& def, const KernelArgs& args, int) override { def.cpu(args); }
  [[nodiscard]] bool has_instruction_sets() const override { return true; }
};

Cpu cpu;
TestDevice* device = &cpu;

}  // namespace

void set_device(TestDevice& other) { device = &other; }

Numbers random_numbers(int64_t count, uint64_t seed, double scale) {
  RandomStream stream(seed, 1);
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(scale * (2.0 * stream.uniform() - 1));
  return numbers;
}

Numbers random_integers(int64_t count, uint64_t seed, int64_t bound) {
  RandomStream stream(seed, 2);
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(stream.below(static_cast<uint32_t>(bound)));
  return numbers;
}

Numbers rounded(Numbers numbers, DType dtype) {
  std::byte bytes[8];
  for (double& number : numbers) {
    write_number(number, dtype, bytes);
    number = read_number(dtype, bytes);
  }
  return numbers;
}

ValueId weighted_sum(Builder& builder, ValueId y, ValueId coefficients) {
  return builder.append_one(kWeightedSum, {y, coefficients});
}

namespace {

using RowsOf = std::vector<int64_t>;  // by axis; see RunOptions

Shape cut_to_rows(const ValueType& type, const RowsOf& rows) {
  Shape shape = type.shape;
  const auto axis = static_cast<size_t>(type.axis);
  if (type.follows_axis() && axis < rows.size() && rows[axis] >= 0) shape.set(0, rows[axis]);
  return shape;
}

}  // namespace

struct Run::Buffers {
  const Graph& graph;
  RunOptions options;
  ThreadPool pool;
  std::vector<GuardedBuffer> values;

  Buffers(const Graph& g, const RunOptions& o) : graph(g), options(o), pool(o.threads) {
    for (const Value& value : graph.values) values.emplace_back(shape_of(value).elems() * size_of(value.type.dtype));
  }

  [[nodiscard]] Shape shape_of(const Value& value) const { return cut_to_rows(value.type, options.rows); }

  void fill(ValueId id, const Numbers& numbers) {
    const Value& value = graph.value(id);
    const int64_t count = shape_of(value).elems();
    REQUIRE_MESSAGE(static_cast<int64_t>(numbers.size()) >= count, value.name << " has too few numbers");
    for (int64_t i = 0; i < count; ++i) {
      write_number(nth(numbers, i), value.type.dtype, nth(values, id).data() + i * size_of(value.type.dtype));
    }
  }

  // Returns, for each input of an operation, the output that takes its place, or -1, by the planner's rules: rules in
  // order, equal bytes, one output for an input.
  [[nodiscard]] std::vector<int> places_taken(const Operation& op) const {
    std::vector<int> taker(op.inputs.size(), -1);
    std::vector<bool> placed(op.outputs.size(), false);
    for (const InPlace& rule : op.def->in_place) {
      const auto input = static_cast<size_t>(rule.input), output = static_cast<size_t>(rule.output);
      if (input >= op.inputs.size() || output >= op.outputs.size() || op.inputs[input] == kNone) continue;
      const ValueId id = op.inputs[input];
      if (placed[output] || taker[input] >= 0 || std::count(op.inputs.begin(), op.inputs.end(), id) != 1) continue;
      if (graph.value(id).type.bytes() != graph.value(op.outputs[output]).type.bytes()) continue;
      taker[input] = static_cast<int>(output);
      placed[output] = true;
    }
    return taker;
  }

  void execute(OpId id) {
    const Operation& op = graph.op(id);
    CAPTURE(op.def->name);
    CHECK(cost_of(graph, id).bytes > 0);
    const std::vector<int> takers = options.in_place ? places_taken(op) : std::vector<int>(op.inputs.size(), -1);
    std::vector<TensorView> inputs, outputs;
    std::vector<std::vector<std::byte>> before;
    for (const ValueId v : op.outputs) outputs.push_back(view(v));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId v = op.inputs[i];
      inputs.push_back(v == kNone ? TensorView{} : view(v));
      before.push_back(v == kNone ? std::vector<std::byte>{} : nth(values, v).content());
      if (takers[i] < 0) continue;
      inputs[i].data = nth(outputs, takers[i]).data;
      std::copy(before[i].begin(), before[i].end(), static_cast<std::byte*>(inputs[i].data));
    }
    GuardedBuffer workspace(device->workspace_bytes(graph, id, options.threads));
    device->run(*op.def,
                {.inputs = inputs,
                 .outputs = outputs,
                 .workspace = workspace.data(),
                 .attributes = op.attributes,
                 .threads = &pool},
                options.threads);
    CHECK(workspace.guards_hold());
    for (const ValueId v : op.outputs) CHECK(nth(values, v).guards_hold());
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != kNone) CHECK(nth(values, op.inputs[i]).content() == before[i]);
    }
  }

  [[nodiscard]] TensorView view(ValueId id) {
    return {nth(values, id).data(), graph.value(id).type.dtype, shape_of(graph.value(id))};
  }
};

Run::Run(const Graph& graph, const std::map<ValueId, Numbers>& inputs, const RunOptions& options)
    : buffers_(std::make_unique<Buffers>(graph, options)) {
  for (const auto& [id, numbers] : inputs) buffers_->fill(id, numbers);
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) buffers_->execute(id);
}

Run::~Run() = default;

Numbers Run::numbers(ValueId id) const {
  const Value& value = buffers_->graph.value(id);
  return read_numbers(nth(buffers_->values, id), value.type.dtype, buffers_->shape_of(value).elems());
}

bool Run::operator==(const Run& other) const {
  for (size_t i = 0; i < buffers_->values.size(); ++i) {
    if (buffers_->values[i].content() != other.buffers_->values[i].content()) {
      MESSAGE("differs: " << buffers_->graph.values[i].name);
      return false;
    }
  }
  return true;
}

void check_close(const Numbers& got, const Numbers& want, DType dtype, double tolerance) {
  REQUIRE(got.size() == want.size());
  double largest = 1e-2;  // below it the tolerance is absolute: sums that cancel to nothing
  for (const double w : want) largest = std::max(largest, std::abs(w));
  const double half_unit = dtype == DType::kBF16 ? 0x1p-8 : 0;
  const auto close = [&](size_t i) {
    return std::abs(got[i] - want[i]) <= tolerance * largest + half_unit * std::abs(want[i]);
  };
  size_t i = 0;
  while (i < got.size() && close(i)) ++i;
  if (i < got.size()) FAIL_CHECK("element " << i << " is " << got[i] << " instead of " << want[i]);
}

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

}  // namespace

void for_each_instruction_set(const std::function<void()>& body) {
  if (!device->has_instruction_sets()) return body();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    CAPTURE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

namespace {

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
    if (alone != nullptr && device->adds_once()) check_added_once(*alone, built, run, rows);
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
  TestDevice* const tested = std::exchange(device, &cpu);
  for_each_instruction_set([&] {
    const bool same_bits = Run(graph, inputs, options) == run;
    CHECK(same_bits);
  });
  device = tested;
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

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("the harness's own end of a graph is the weighted sum") {
  Graph graph;
  Builder b(graph);
  const ValueId y = b.input("y", {DType::kBF16, {3}}, ValueKind::kBatch);
  const ValueId c = b.input("c", {DType::kBF16, {3}}, ValueKind::kBatch);
  const ValueId loss = weighted_sum(b, y, c);
  CHECK(Run(graph, {{y, {1, 2, 3}}, {c, {0.5, -1, 2}}}).numbers(loss) == Numbers{4.5});
}
