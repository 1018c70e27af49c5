// Tests groups of micro-batches on random graphs of real operations.
#include "graph/repeat_by_block.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/random.h"
#include "base/sizes.h"
#include "graph/autodiff.h"
#include "graph/verify.h"
#include "graph/verify_group.h"
#include "ops/add/add.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/zero/zero.h"

using namespace spillway;

namespace {

constexpr int64_t kGroupTokens = 3, kGroupWidth = 4;

// A network of blocks of products and sums, some outside blocks, whose weights are trained with accumulators or frozen,
// and may be read in several places.
struct RandomNetwork {
  Graph graph{.name = "training", .axes = {{"tokens", kGroupTokens}}};

  explicit RandomNetwork(uint64_t seed) {
    RandomStream random(seed, 3);
    Builder b(graph);
    std::vector<WeightGradient> gradients;
    std::vector<ValueId> weights;
    const auto weight = [&](const std::string& name) {
      const bool trained = random.below(2) == 0;
      const ValueType type{DType::kF32, {kGroupWidth, kGroupWidth}};
      const ValueId id = b.input(name, type, trained ? ValueKind::kTrainableWeight : ValueKind::kFrozenWeight);
      if (trained)
        gradients.push_back({.weight = id, .accumulator = b.input("gradient." + name, type, ValueKind::kGradient)});
      weights.push_back(id);
      return id;
    };
    const ValueType per_token{DType::kF32, {kGroupTokens, kGroupWidth}, kTokenAxis};
    ValueId x = b.input("x", per_token, ValueKind::kBatch);
    const uint32_t blocks = 1 + random.below(4);
    for (uint32_t block = 0; block < blocks; ++block) {
      if (random.below(4) > 0) b.begin_block("layer " + std::to_string(block));
      ValueId y = x;
      for (uint32_t i = 0; i <= random.below(3); ++i) {
        const bool is_shared = !weights.empty() && random.below(4) == 0;
        const ValueId w = is_shared ? weights[random.below(static_cast<uint32_t>(weights.size()))]
                                    : weight(std::to_string(block) + "." + std::to_string(i));
        y = ops::linear(b, y, w);
        if (random.below(2) == 0) y = ops::add(b, y, x);
      }
      x = ops::add(b, x, y);
      b.end_block();
    }
    const ValueId head = b.input("head", {DType::kF32, {5, kGroupWidth}}, ValueKind::kTrainableWeight);
    gradients.push_back({.weight = head, .accumulator = b.input("gradient.head", b.type(head), ValueKind::kGradient)});
    const ValueId labels = b.input("labels", {DType::kI32, {kGroupTokens}, kTokenAxis}, ValueKind::kBatch);
    const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
    const ValueId loss = ops::linear_cross_entropy(b, x, head, labels, scale, ops::LossGradients::kInputAndWeight).loss;
    b.result(loss);
    append_backward(b, loss, gradients, ops::add);
  }
};

// Returns, by value of the group, the value of the first micro-batch that it repeats, and the micro-batch.
std::vector<std::pair<ValueId, int64_t>> origins(const Graph& first, const Graph& group, const RepeatedValues& repeated,
                                                 int64_t count) {
  std::vector<std::pair<ValueId, int64_t>> result(group.values.size(), {kNone, 0});
  for (ValueId id = 0; id < static_cast<ValueId>(first.values.size()); ++id) {
    nth(result, id) = {id, 0};
    for (int64_t number = 1; number < count; ++number)
      if (const ValueId other = repeated.of(id, number); other != id) nth(result, other) = {id, number};
  }
  return result;
}

// Returns the runs of operations of one block within a section.
std::vector<std::pair<SectionId, BlockId>> visits_of(const Graph& graph) {
  std::vector<std::pair<SectionId, BlockId>> visits;
  for (const Operation& op : graph.ops) {
    const std::pair visit{op.section, op.block};
    if (visits.empty() || visits.back() != visit) visits.push_back(visit);
  }
  return visits;
}

// Returns the value that takes the place of a persistent one.
ValueId next_version(const Graph& graph, ValueId persistent) {
  const auto next = std::find_if(graph.values.begin(), graph.values.end(),
                                 [&](const Value& value) { return value.updates == persistent; });
  return static_cast<ValueId>(next - graph.values.begin());
}

// Returns true if no operation of the backward pass is in a block.
bool all_outside_blocks(const Graph& graph) {
  return std::none_of(graph.ops.begin(), graph.ops.end(),
                      [](const Operation& op) { return op.section == 1 && op.block != kNone; });
}

// Returns, by micro-batch, the batch values that it alone reads.
std::vector<std::vector<ValueId>> inputs_of(const Graph& first, const RepeatedValues& repeated, int64_t count) {
  auto inputs = make_vector<std::vector<ValueId>>(count);
  for (ValueId id = 0; id < std::ssize(first.values); ++id) {
    if (first.value(id).kind != ValueKind::kBatch) continue;
    for (int64_t number = 0; number < count; ++number) nth(inputs, number).push_back(repeated.of(id, number));
  }
  return inputs;
}

constexpr uint64_t kGroupSeeds = 60;

}  // namespace

TEST_CASE("each micro-batch of a group does what the first did alone, in its order, and reads no other's values") {
  for (uint64_t seed = 0; seed < kGroupSeeds; ++seed) {
    for (const int64_t count : {2, 3, 5}) {
      CAPTURE(seed);
      CAPTURE(count);
      const Graph first = RandomNetwork(seed).graph;
      Graph group = first;
      const RepeatedValues repeated = repeat_by_block(group, count);
      REQUIRE(verify(group).empty());
      REQUIRE(group.ops.size() == first.ops.size() * static_cast<size_t>(count));
      const auto origin = origins(first, group, repeated, count);
      std::vector<int64_t> done = make_vector<int64_t>(count);
      for (const Operation& op : group.ops) {
        const int64_t number = nth(origin, op.outputs[0]).second;
        const Operation& alone = nth(first.ops, nth(done, number)++);
        REQUIRE(op.def == alone.def);
        REQUIRE(op.attributes == alone.attributes);
        for (size_t i = 0; i < op.inputs.size(); ++i) {
          if (alone.inputs[i] == kNone) continue;
          // Persistent values alone are shared: weights as they are, sums as the micro-batch before has left them.
          if (const ValueId root = group.persistent_root(op.inputs[i]); root != kNone) {
            REQUIRE(root == alone.inputs[i]);
          } else {
            REQUIRE(nth(origin, op.inputs[i]) == std::pair{alone.inputs[i], number});
          }
        }
        for (size_t i = 0; i < op.outputs.size(); ++i)
          REQUIRE(nth(origin, op.outputs[i]) == std::pair{alone.outputs[i], number});
      }
    }
  }
}

TEST_CASE("a group visits blocks as often as one micro-batch does, and adds to sums in the order of micro-batches") {
  for (uint64_t seed = 0; seed < kGroupSeeds; ++seed) {
    CAPTURE(seed);
    const Graph first = RandomNetwork(seed).graph;
    Graph group = first;
    const RepeatedValues repeated = repeat_by_block(group, 3);
    auto visits = visits_of(first);
    // Both passes of what stands behind the last block are one visit.
    if (!all_outside_blocks(first)) visits.erase(std::find(visits.begin(), visits.end(), std::pair{1, kNone}));
    CHECK(visits_of(group) == visits);
    for (ValueId id = 0; id < static_cast<ValueId>(first.values.size()); ++id) {
      const ValueId sum = first.value(id).updates;
      if (sum == kNone) continue;
      CHECK(group.value(id).updates == sum);
      CHECK(group.value(repeated.of(id, 1)).updates == id);
      CHECK(group.value(repeated.of(id, 2)).updates == repeated.of(id, 1));
    }
  }
}

TEST_CASE("each micro-batch of a group adds the gradient of its head to the sum before the next one makes its own") {
  size_t seen = 0;
  for (uint64_t seed = 0; seed < kGroupSeeds; ++seed) {
    CAPTURE(seed);
    const Graph first = RandomNetwork(seed).graph;
    if (all_outside_blocks(first)) continue;
    ++seen;
    Graph group = first;
    const RepeatedValues repeated = repeat_by_block(group, 3);
    const ValueId loss = first.results[0], sum = next_version(first, first.find("gradient.head"));
    for (int64_t number = 0; number < 2; ++number)
      CHECK(group.value(repeated.of(sum, number)).producer < group.value(repeated.of(loss, number + 1)).producer);
  }
  CHECK(seen > kGroupSeeds / 2);
}

TEST_CASE(
    "the sums of a group that is a whole step are plain values, each from zeros right before its first addition") {
  for (uint64_t seed = 0; seed < kGroupSeeds; ++seed) {
    CAPTURE(seed);
    const Graph first = RandomNetwork(seed).graph;
    Graph group = first;
    const RepeatedValues repeated = repeat_by_block(group, 3, ops::zeros);
    REQUIRE(verify(group).empty());
    CHECK(verify_group(group, inputs_of(first, repeated, 3)).empty());
    size_t sums = 0;
    for (ValueId id = 0; id < std::ssize(first.values); ++id) {
      const ValueId sum = first.value(id).updates;
      if (sum == kNone) continue;
      ++sums;
      CHECK_FALSE(group.is_persistent(sum));
      const OpId zeros = group.value(sum).producer;
      CHECK(group.op(zeros).def->name == "zeros");
      CHECK(group.value(id).producer == zeros + 1);
      for (const ValueId version : {sum, id, repeated.of(id, 1)}) CHECK(group.value(version).group == kNone);
      CHECK(group.value(repeated.of(id, 2)).group == first.value(id).group);
      // The additions are the same as to a persistent value.
      const auto reads = [&](ValueId of, ValueId read) {
        const std::vector<ValueId>& inputs = group.op(group.value(of).producer).inputs;
        return std::find(inputs.begin(), inputs.end(), read) != inputs.end();
      };
      CHECK(reads(id, sum));
      CHECK(reads(repeated.of(id, 1), id));
      CHECK(reads(repeated.of(id, 2), repeated.of(id, 1)));
    }
    CHECK(group.ops.size() == 3 * first.ops.size() + sums);
  }
}

TEST_CASE("what crosses from one micro-batch of a group to another is found, unless a sum of gradients adds it") {
  for (uint64_t seed = 0; seed < kGroupSeeds; ++seed) {
    CAPTURE(seed);
    const Graph first = RandomNetwork(seed).graph;
    Graph group = first;
    const RepeatedValues repeated = repeat_by_block(group, 3);
    const auto inputs = inputs_of(first, repeated, 3);
    REQUIRE(verify_group(group, inputs).empty());
    // Each operation of the second micro-batch reads a value of the first one's in place of its own.
    for (OpId id = 0; id < std::ssize(group.ops); ++id) {
      for (ValueId value = 0; value < std::ssize(first.values); ++value) {
        const ValueId own = repeated.of(value, 1);
        if (own == value || first.value(value).updates != kNone) continue;
        std::vector<ValueId>& read = nth(group.ops, id).inputs;
        const auto at = std::find(read.begin(), read.end(), own);
        if (at == read.end()) continue;
        *at = value;
        CHECK_FALSE(verify_group(group, inputs).empty());
        *at = own;
      }
    }
  }
}

TEST_CASE("a micro-batch of a group has axes, batch values and results of its own") {
  Graph group = RandomNetwork(1).graph;
  const ValueId labels = group.find("labels"), loss = group.results[0];
  const RepeatedValues repeated = repeat_by_block(group, 3);
  CHECK(group.axes.size() == 3);
  CHECK(group.results == std::vector<ValueId>{loss, repeated.of(loss, 1), repeated.of(loss, 2)});
  const Value& of_last = group.value(repeated.of(labels, 2));
  CHECK(of_last.type.axis == AxisId{2});
  CHECK(of_last.kind == ValueKind::kBatch);
  CHECK(axis_of_first(group, AxisId{2}) == kTokenAxis);
  CHECK(axis_of_first(group, kNoAxis) == kNoAxis);
}
