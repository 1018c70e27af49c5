#include "ops/balance_loss/balance_loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/add/add.h"
#include "ops/route/route.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// The loss of layers whose logits are `in`, behind the weight and the offsets of sequences, as transformers'
// load_balancing_loss_func computes it of the rows before the last offset.
double reference_balance_loss(const std::vector<Numbers>& in, int64_t experts, int64_t top_k) {
  Numbers chosen(static_cast<size_t>(experts)), probabilities(chosen.size());
  double rows = 0;
  const auto most = static_cast<std::ptrdiff_t>(in[1].back()) * experts;
  for (size_t layer = 2; layer < in.size(); ++layer) {
    const auto end = in[layer].begin() + std::clamp<std::ptrdiff_t>(most, 0, std::ssize(in[layer]));
    for (auto row = in[layer].begin(); row < end; row += experts, ++rows) {
      double sum = 0;
      for (auto logit = row; logit < row + experts; ++logit) sum += std::exp(*logit);
      for (size_t e = 0; e < chosen.size(); ++e) {
        const double own = *(row + static_cast<std::ptrdiff_t>(e));
        probabilities[e] += std::exp(own) / sum;
        chosen[e] += std::count_if(row, row + experts, [&](double logit) { return logit > own; }) < top_k ? 1 : 0;
      }
    }
  }
  double loss = 0;
  for (size_t e = 0; rows > 0 && e < chosen.size(); ++e) loss += chosen[e] / rows * probabilities[e] / rows;
  return in[0][0] * static_cast<double>(experts) * loss;
}

ops::SortedPairs routed(Builder& b, ValueId logits, int64_t experts, int64_t top_k) {
  return ops::sort_pairs(b, ops::route(b, logits, {.top_k = top_k}).experts, experts);
}

// Without `offsets` all rows count.
void check_balance_loss(int64_t tokens, int64_t experts, int64_t top_k, int layers, const Numbers& offsets = {}) {
  const Numbers given = offsets.empty() ? Numbers{0, static_cast<double>(tokens)} : offsets;
  OperationCase test{
      .tokens = tokens,
      .inputs = {{{DType::kF32, {1}}, {0.7}, false}, {{DType::kI32, {std::ssize(given)}}, given, false, true}},
      .is_loss = true};
  for (int layer = 0; layer < layers; ++layer)
    test.inputs.push_back({{DType::kF32, {tokens, experts}, kTokenAxis},
                           random_numbers(tokens * experts, 5 + static_cast<uint64_t>(layer), 2)});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    ValueId total = kNone;
    for (size_t layer = 2; layer < in.size(); ++layer) {
      const ValueId load =
          ops::router_load(b, in[layer], routed(b, in[layer], experts, top_k), offsets.empty() ? kNone : in[1]);
      total = total == kNone ? load : ops::add(b, total, load);
    }
    return ops::balance_loss(b, total, top_k, in[0]).weighted;
  };
  test.reference = [=](const std::vector<Numbers>& in) { return Numbers{reference_balance_loss(in, experts, top_k)}; };
  check_operation(test);
}

}  // namespace

TEST_CASE("the load-balancing loss pools the rows of all layers, and its gradients follow the probabilities") {
  check_balance_loss(7, 6, 2, 1);
  check_balance_loss(9, 5, 1, 3);
  check_balance_loss(20, 3, 2, 2);   // several blocks of rows
  check_balance_loss(2, 130, 8, 1);  // more experts than a block of a GPU has threads
}

TEST_CASE("rows behind the last sequence do not count in the load-balancing loss, nor in its gradients") {
  check_balance_loss(20, 3, 2, 2, {0, 4, 13});
  check_balance_loss(20, 3, 2, 2, {-9, -2, 1});  // sequences that began before these rows
  check_balance_loss(9, 5, 1, 1, {-3, 4, 31});
  check_balance_loss(7, 130, 8, 1, {-20, -5});  // all of them
}

TEST_CASE("without rows the load-balancing loss and its gradient are zero, and so is the largest load") {
  Graph graph{.axes = {{"tokens", 3}}};
  Builder b(graph);
  const ValueId weight = b.input("weight", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId x = b.input("x", {DType::kF32, {3, 4}, kTokenAxis}, ValueKind::kBatch);
  const ops::SortedPairs pairs = routed(b, x, 4, 2);
  const ops::BalanceLoss loss = ops::balance_loss(b, ops::router_load(b, x, pairs), 2, weight);
  const ValueId largest = ops::largest_load(b, pairs.offsets, kNone);
  const Run run(graph, {{weight, {1}}, {x, Numbers(12)}}, {.rows = {0}});
  CHECK(run.numbers(loss.weighted) == Numbers{0});
  CHECK(run.numbers(loss.loss) == Numbers{0});
  CHECK(run.numbers(largest) == Numbers{0});
}

TEST_CASE("the largest load is that of the most used expert of all layers, over the mean of its layer") {
  Graph graph{.axes = {{"tokens", 3}}};
  Builder b(graph);
  const ValueId even = b.input("even", {DType::kF32, {3, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId uneven = b.input("uneven", {DType::kF32, {3, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId of_even = ops::largest_load(b, routed(b, even, 3, 1).offsets, kNone);
  const ValueId of_both = ops::largest_load(b, routed(b, uneven, 3, 1).offsets, of_even);
  const ValueId last = ops::largest_load(b, routed(b, even, 3, 1).offsets, of_both);
  const Run run(graph, {{even, {1, 0, 0, 0, 1, 0, 0, 0, 1}}, {uneven, {1, 0, 0, 1, 0, 0, 0, 0, 1}}});
  CHECK(run.numbers(of_even) == Numbers{1});
  CHECK(run.numbers(of_both) == Numbers{2});
  CHECK(run.numbers(last) == Numbers{2});
}

TEST_CASE("the use of experts is read from a load as from the offsets of pairs") {
  Graph graph{.axes = {{"tokens", 1}}};
  Builder b(graph);
  const ValueId load = b.input("load", {DType::kF32, {2, 4}}, ValueKind::kBatch);
  const ValueId none = b.input("none", {DType::kF32, {2, 4}}, ValueKind::kBatch);
  const ValueId largest = ops::largest_load(b, load, kNone), of_none = ops::largest_load(b, none, kNone);
  const ValueId reached = ops::reached_experts(b, none, ops::reached_experts(b, load, kNone));
  const Run run(graph, {{load, {3, 0, 2, 5, 9, 9, 9, 9}}, {none, {0, 0, 0, 0, 1, 1, 1, 1}}});
  CHECK(run.numbers(largest) == Numbers{2});  // 5 of 10 pairs, of which each of four experts would have 2.5
  CHECK(run.numbers(of_none) == Numbers{0});
  CHECK(run.numbers(reached) == Numbers{3});
}

TEST_CASE("the experts that some token has reached are counted over all layers") {
  Graph graph{.axes = {{"tokens", 3}}};
  Builder b(graph);
  const ValueId even = b.input("even", {DType::kF32, {3, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId uneven = b.input("uneven", {DType::kF32, {3, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId of_even = ops::reached_experts(b, routed(b, even, 3, 1).offsets, kNone);
  const ValueId of_both = ops::reached_experts(b, routed(b, uneven, 3, 1).offsets, of_even);
  const std::map<ValueId, Numbers> inputs = {{even, {1, 0, 0, 0, 1, 0, 0, 0, 1}},
                                             {uneven, {1, 0, 0, 1, 0, 0, 0, 0, 1}}};
  const Run run(graph, inputs);
  CHECK(run.numbers(of_even) == Numbers{3});
  CHECK(run.numbers(of_both) == Numbers{5});
  CHECK(Run(graph, inputs, {.rows = {0}}).numbers(of_both) == Numbers{0});
}

TEST_CASE("the load of a router refuses offsets of other experts than its logits have") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::router_load(b, x, {.offsets = offsets}),
                    doctest::Contains("[router_load] expected offsets"));
}
