#include <doctest/doctest.h>

#include "ops/squared_norm/squared_norm.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

TEST_CASE("the norm of a tensor in parts has the bits of its norm as a whole") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph graph;
    Builder b(graph);
    // Two parts of three blocks, of which the last one has four numbers and zeros behind them.
    Numbers whole = random_numbers(5 * 4096 + 4, 1), first(whole.begin(), whole.begin() + 3 * 4096),
            last(whole.begin() + 3 * 4096, whole.end());
    last.resize(3 * 4096);
    std::map<ValueId, Numbers> inputs;
    const auto input = [&](const char* name, const Numbers& numbers) {
      const ValueId id = b.input(name, {dtype, {std::ssize(numbers)}}, ValueKind::kBatch);
      inputs[id] = rounded(numbers, dtype);
      return id;
    };
    const ValueId at_once = squared_norm(b, input("whole", whole));
    const ValueId sums[] = {block_squares(b, input("first", first)), block_squares(b, input("last", last))};
    const ValueId in_parts = squared_norm_of_blocks(b, sums);
    const Run run(graph, inputs, {.threads = 2});
    CHECK(run.numbers(in_parts) == run.numbers(at_once));
  }
}
