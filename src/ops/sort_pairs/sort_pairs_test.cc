#include "ops/sort_pairs/sort_pairs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

void check_sorted(const Numbers& experts, int64_t k, int64_t count, int64_t rows = -1) {
  Graph graph;
  const auto tokens = static_cast<int64_t>(experts.size()) / k;
  graph.axes = {{"tokens", tokens}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kI32, {tokens, k}, kTokenAxis}, ValueKind::kBatch);
  const ops::SortedPairs pairs = ops::sort_pairs(b, x, count);
  const Numbers used(experts.begin(), experts.begin() + (rows < 0 ? tokens : rows) * k);
  Numbers order(used.size()), inverse(used.size()), offsets;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](double a, double c) { return used[static_cast<size_t>(a)] < used[static_cast<size_t>(c)]; });
  for (size_t place = 0; place < order.size(); ++place)
    inverse[static_cast<size_t>(order[place])] = static_cast<double>(place);
  for (int64_t e = 0; e <= count; ++e)
    offsets.push_back(static_cast<double>(
        std::count_if(used.begin(), used.end(), [&](double x_) { return x_ < static_cast<double>(e); })));
  for (const int threads : {1, 3}) {
    const Run run(graph, {{x, experts}}, {.threads = threads, .rows = {rows}});
    CHECK(run.numbers(pairs.order) == order);
    CHECK(run.numbers(pairs.inverse) == inverse);
    CHECK(run.numbers(pairs.offsets) == offsets);
  }
}

}  // namespace

TEST_CASE("pairs are sorted by expert, those of an expert in their order") {
  check_sorted(random_integers(300, 1, 7), 3, 7);
  check_sorted(random_integers(40, 2, 300), 2, 300);
  check_sorted(Numbers(12, 4), 2, 6);
  check_sorted({5}, 1, 6);
  check_sorted(random_integers(60, 3, 7), 3, 7, 5);
  check_sorted(random_integers(60, 3, 7), 3, 7, 0);
}
