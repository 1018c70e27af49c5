// Tests operations placed as early as every plan allows, on graphs of real operations.
#include "graph/place_early.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/index.h"
#include "graph/autodiff.h"
#include "graph/recompute.h"
#include "graph/verify.h"
#include "ops/add/add.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/embedding/embedding.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/optimizers/sgd/sgd.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/swiglu/swiglu.h"

using namespace spillway;

namespace {

constexpr int64_t kEarlyTokens = 4, kStreamWidth = 6, kStreamInner = 8, kStreamVocabulary = 11;

// A network with two blocks of a norm and a gated feed-forward between a tied embedding and head; norms and updates are
// at the end of the backward section.
struct Network {
  Graph graph{.name = "training", .axes = {{"tokens", kEarlyTokens}}};
  std::vector<WeightGradient> gradients;
  OpId first = 0, end = 0;  // of the norms and updates
  OpId backward_begin = 0;

  explicit Network(bool tied = true) {
    Builder b(graph);
    const ValueId ids = b.input("ids", {DType::kI32, {kEarlyTokens}, kTokenAxis}, ValueKind::kBatch);
    const ValueId labels = b.input("labels", {DType::kI32, {kEarlyTokens}, kTokenAxis}, ValueKind::kBatch);
    const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
    const ValueId rate = b.input("rate", {DType::kF32, {1}}, ValueKind::kBatch);
    const ValueId step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
    const auto weight = [&](const std::string& name, const Shape& shape) {
      const ValueId id = b.input(name, {DType::kF32, shape}, ValueKind::kTrainableWeight);
      gradients.push_back({.weight = id});
      return id;
    };
    const ValueId table = weight("table", {kStreamVocabulary, kStreamWidth});
    ValueId x = ops::embedding(b, ids, table);
    for (const std::string layer : {"0", "1"}) {
      b.begin_block("layer " + layer);
      const ValueId y = ops::rms_norm(b, x, weight("norm" + layer, {kStreamWidth}), 1e-5);
      const ValueId gate = ops::linear(b, y, weight("gate" + layer, {kStreamInner, kStreamWidth}));
      const ValueId up = ops::linear(b, y, weight("up" + layer, {kStreamInner, kStreamWidth}));
      x = ops::linear(b, ops::swiglu(b, gate, up), weight("down" + layer, {kStreamWidth, kStreamInner}), {.addend = x});
      b.end_block();
    }
    const ValueId head = tied ? table : weight("head", {kStreamVocabulary, kStreamWidth});
    const ValueId loss = ops::linear_cross_entropy(b, x, head, labels, scale, ops::LossGradients::kInputAndWeight).loss;
    b.result(loss);
    backward_begin = static_cast<OpId>(graph.ops.size());
    append_backward(b, loss, gradients, ops::add);
    first = static_cast<OpId>(graph.ops.size());
    std::vector<ValueId> squares;
    for (const WeightGradient& g : gradients) squares.push_back(ops::squared_norm(b, g.gradient));
    for (const WeightGradient& g : gradients)
      ops::kSgd.update(b, {.weight = g.weight, .gradient = g.gradient, .learning_rate = rate, .step = step},
                       ops::options_of(ops::kSgd));
    end = static_cast<OpId>(graph.ops.size());
    b.begin_section(update_section());
    b.result(ops::clip_factor(b, squares, 0).norm);
  }

  [[nodiscard]] ValueId next(ValueId value) const {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].updates == value) return static_cast<ValueId>(i);
    }
    return kNone;
  }
  [[nodiscard]] const WeightGradient& gradient_of(const std::string& name) const {
    return *std::find_if(gradients.begin(), gradients.end(),
                         [&](const WeightGradient& g) { return graph.value(g.weight).name == name; });
  }
};

// Returns, by value, the last backward operation that reads it when the values of `again` are recomputed, by running
// the recursion of a scheduler that runs a forward operation as late as it can: once for each reader.
std::vector<OpId> reads_under(const Graph& graph, const std::vector<bool>& again) {
  std::vector<OpId> last(graph.values.size(), kNone);
  const auto read = [&](const auto& self, OpId id, OpId when) -> void {
    for (const ValueId v : graph.op(id).inputs) {
      if (v == kNone) continue;
      nth(last, v) = std::max(nth(last, v), when);
      if (nth(again, v)) self(self, graph.value(v).producer, when);
    }
  };
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    if (graph.section_of(id).name == "backward") read(read, id, id);
  }
  return last;
}

bool is_well_formed(const Graph& graph) {
  const std::vector<std::string> violations = verify(graph);
  for (const std::string& violation : violations) MESSAGE(violation);
  return violations.empty();
}

}  // namespace

TEST_CASE("the last backward read of a value is the latest under any choice of what is recomputed") {
  const Network network;
  const Graph& graph = network.graph;
  const std::vector<bool> may = recomputable_values(graph);
  std::vector<size_t> choices;
  for (size_t v = 0; v < may.size(); ++v) {
    if (may[v]) choices.push_back(v);
  }
  REQUIRE(choices.size() >= 8);
  REQUIRE(choices.size() <= 14);
  std::vector<OpId> latest(graph.values.size(), kNone);
  for (size_t subset = 0; subset < size_t{1} << choices.size(); ++subset) {
    std::vector<bool> again(graph.values.size(), false);
    for (size_t i = 0; i < choices.size(); ++i) again[choices[i]] = (subset >> i & 1) != 0;
    const std::vector<OpId> reads = reads_under(graph, again);
    for (size_t v = 0; v < latest.size(); ++v) latest[v] = std::max(latest[v], reads[v]);
  }
  CHECK(last_backward_reads(graph, static_cast<OpId>(graph.ops.size())) == latest);
}

TEST_CASE("a block's output, results and what stands outside of blocks are never recomputed") {
  const Network network;
  const Graph& graph = network.graph;
  const std::vector<bool> may = recomputable_values(graph);
  for (size_t v = 0; v < may.size(); ++v) {
    const Value& value = graph.values[v];
    const bool inner = value.producer != kNone && value.producer < network.backward_begin && value.block != kNone;
    // Within a layer this holds for all but its last product, which the next layer or the head reads.
    const bool output = inner && graph.op(value.producer).def->name == "matmul" && value.type.shape[1] == kStreamWidth;
    CHECK(may[v] == (inner && !output));
  }
}

TEST_CASE("norms stand right behind the gradient, updates behind the old weight's last reader as well") {
  for (const bool tied : {true, false}) {
    CAPTURE(tied);
    Network n(tied);
    REQUIRE(is_well_formed(n.graph));
    const std::vector<OpId> old_reads = last_backward_reads(n.graph, n.first);
    std::vector<std::string> readers;  // of each old weight, the last: by the name of what it makes
    for (const WeightGradient& g : n.gradients) {
      const OpId last = nth(old_reads, g.weight);
      readers.push_back(last == kNone ? "" : n.graph.value(n.graph.op(last).outputs[0]).name);
    }
    place_early(n.graph, n.first, n.end);
    CHECK(is_well_formed(n.graph));

    std::vector<bool> moved(n.graph.ops.size(), false);
    for (const WeightGradient& g : n.gradients) nth(moved, n.graph.value(n.next(g.weight)).producer) = true;
    for (size_t id = 0; id < moved.size(); ++id) moved[id] = moved[id] || n.graph.ops[id].def->name == "squared_norm";
    // Returns the staying operation that stands nearest before a moved one.
    const auto before = [&](OpId id) {
      while (id >= n.backward_begin && nth(moved, id)) --id;
      return id;
    };
    for (size_t i = 0; i < n.gradients.size(); ++i) {
      const WeightGradient& g = n.gradients[i];
      CAPTURE(n.graph.value(g.weight).name);
      const OpId update = n.graph.value(n.next(g.weight)).producer;
      const OpId made = std::max(n.graph.value(g.gradient).producer, n.backward_begin - 1);
      const ValueId reader = n.graph.find(readers[i]);
      CHECK(before(update) == std::max(made, reader == kNone ? kNone : n.graph.value(reader).producer));
      for (OpId id = 0; id < static_cast<OpId>(n.graph.ops.size()); ++id) {
        if (n.graph.op(id).def->name == "squared_norm" && n.graph.op(id).inputs[0] == g.gradient) {
          CHECK(before(id) == made);
        }
      }
    }
    // The head's gradient comes out of the fused loss, so the head is updated first of all; a tied one, last.
    const ValueId table = n.gradient_of("table").weight;
    CHECK(n.graph.value(n.next(table)).producer == n.end - 1);
    if (!tied) CHECK(n.graph.value(n.next(n.gradient_of("head").weight)).producer <= n.backward_begin + 1);
  }
}

TEST_CASE("an update too early for recomputation is reported, although nobody reads the old version afterwards") {
  Network n;
  place_early(n.graph, n.first, n.end);
  // Only the forward product reads `up`, whose output swiglu's gradient needs: moves the update before all that, as if
  // its gradient were ready.
  const ValueId up = n.gradient_of("up1").weight;
  const OpId update = n.graph.value(n.next(up)).producer;
  Operation moved = n.graph.op(update);
  std::replace(moved.inputs.begin(), moved.inputs.end(), n.gradient_of("up1").gradient, up);
  n.graph.ops.erase(n.graph.ops.begin() + update);
  n.graph.ops.insert(n.graph.ops.begin() + n.backward_begin, moved);
  for (size_t id = 0; id < n.graph.ops.size(); ++id) {
    for (const ValueId v : n.graph.ops[id].outputs) n.graph.value(v).producer = static_cast<OpId>(id);
  }
  const std::vector<std::string> found = verify(n.graph);
  CHECK(std::any_of(found.begin(), found.end(), [](const std::string& line) {
    return line.find("may need up1 for recomputation after its update") != std::string::npos;
  }));
}

TEST_CASE("a chain of updates keeps its order, and what depends on a placed operation follows it") {
  Graph graph{.name = "chain", .axes = {{"tokens", 1}}};
  Builder b(graph);
  const ValueType type{DType::kF32, {4}};
  const ValueId w = b.input("w", type, ValueKind::kTrainableWeight);
  const ValueId x = b.input("x", type, ValueKind::kBatch);
  const ValueId y = b.input("y", type, ValueKind::kBatch);
  const ValueId rate = b.input("rate", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
  b.begin_section(backward_section());
  const ValueId late = ops::add(b, x, y);              // 0
  const ValueId gradient = ops::add(b, y, x);          // 1
  const ValueId other = ops::add(b, w, y);             // 2 reads the old weight
  const ValueId unrelated = ops::add(b, other, late);  // 3
  const auto first = static_cast<OpId>(graph.ops.size());
  ops::kSgd.update(b, {.weight = w, .gradient = gradient, .learning_rate = rate, .step = step},
                   ops::options_of(ops::kSgd));
  const ValueId next = graph.ops.back().outputs[0];
  ops::kSgd.update(b, {.weight = next, .gradient = late, .learning_rate = rate, .step = step},
                   ops::options_of(ops::kSgd));
  const ValueId square = ops::squared_norm(b, late);
  place_early(graph, first, static_cast<OpId>(graph.ops.size()));
  CHECK(is_well_formed(graph));
  std::vector<std::string> names;
  for (const Operation& op : graph.ops) names.push_back(graph.value(op.outputs[0]).name);
  CHECK(names == std::vector<std::string>{"add.0", graph.value(square).name, "add.1", "add.2", "sgd.4", "sgd.5",
                                          graph.value(unrelated).name});
}
