// Runs of a graph on the device under test, operation by operation, over guarded buffers.
#include <doctest/doctest.h>

#include "ops/simd.h"  // before Highway: it names the instruction sets

#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/parallel.h"
#include "ops/testing/guarded_buffer.h"
#include "ops/testing/harness.h"

namespace spillway::ops::testing {

namespace {

Numbers read_numbers(const GuardedBuffer& buffer, DType dtype, int64_t count) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(read_number(dtype, buffer.data() + i * size_of(dtype)));
  return numbers;
}

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

TestDevice& tested_device() { return *device; }

void with_cpu(const std::function<void()>& body) {
  TestDevice* const tested = std::exchange(device, &cpu);
  body();
  device = tested;
}

Shape cut_to_rows(const ValueType& type, const RowsOf& rows) {
  Shape shape = type.shape;
  const auto axis = static_cast<size_t>(type.axis);
  if (type.follows_axis() && axis < rows.size() && rows[axis] >= 0) shape.set(0, rows[axis]);
  return shape;
}

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
    std::vector<std::vector<uint8_t>> before;
    for (const ValueId v : op.outputs) outputs.push_back(view(v));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId v = op.inputs[i];
      inputs.push_back(v == kNone ? TensorView{} : view(v));
      before.push_back(v == kNone ? std::vector<uint8_t>{} : nth(values, v).content());
      if (takers[i] < 0) continue;
      inputs[i].data = nth(outputs, takers[i]).data;
      std::copy(before[i].begin(), before[i].end(), inputs[i].as<uint8_t>());
    }
    GuardedBuffer workspace(tested_device().workspace_bytes(graph, id, options.threads));
    tested_device().run(*op.def,
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

void for_each_instruction_set(const std::function<void()>& body) {
  if (!tested_device().has_instruction_sets()) return body();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    CAPTURE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace spillway::ops::testing
