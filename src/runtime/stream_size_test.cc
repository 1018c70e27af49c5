#include "runtime/stream_size.h"

#include <doctest/doctest.h>

#include "ops/add/add.h"
#include "ops/attention/attention.h"

using namespace spillway;

namespace {

constexpr int64_t kTokens = 4096;

// Returns a graph of two operations: attention over sequences of this length (0: one), and an addition.
Graph attention_and_sum(int64_t sequence_len) {
  Graph graph;
  graph.axes = {{"tokens", kTokens}};
  Builder builder(graph);
  const auto stream = [&](const char* name) {
    return builder.input(name, {DType::kF32, {kTokens, 8}, kTokenAxis}, ValueKind::kBatch);
  };
  const ValueId q = stream("q"), k = stream("k"), v = stream("v");
  const ValueId offsets = builder.input("offsets", {DType::kI32, {9}}, ValueKind::kBatch);
  (void)ops::attention(builder, q, k, v, offsets,
                       {.heads = 2, .kv_heads = 2, .head_size = 4, .sequence_len = sequence_len});
  (void)ops::add(builder, q, k);
  return graph;
}

}  // namespace

TEST_CASE("attention's work falls with the tokens of whole sequences, and with their square within one") {
  const Graph one = attention_and_sum(0), eight = attention_and_sum(kTokens / 8);
  CHECK(work_share(one, 0, kTokens) == doctest::Approx(1));
  CHECK(work_share(one, 0, kTokens / 2) == doctest::Approx(1.0 / 4));
  CHECK(work_share(one, 0, kTokens / 16) == doctest::Approx(1.0 / 256));
  CHECK(work_share(eight, 0, kTokens / 4) == doctest::Approx(1.0 / 4));
  CHECK(work_share(eight, 0, kTokens / 16) == doctest::Approx(1.0 / 32));
  for (const Graph* graph : {&one, &eight}) CHECK(work_share(*graph, 1, kTokens / 16) == doctest::Approx(1.0 / 16));
}

TEST_CASE("a stream shrinks to whole sequences, then to parts of one, and never below the fewest tokens") {
  CHECK(smaller_stream(2000, 300) == 900);
  CHECK(smaller_stream(900, 300) == 300);
  CHECK(smaller_stream(2000, 2000) == 1000);
  CHECK(smaller_stream(1001, 0) == 500);
  CHECK(smaller_stream(300, 300) == kMinTokens);
  CHECK(smaller_stream(kMinTokens, 2000) == kMinTokens);
  CHECK(smaller_stream(100, 0) == 100);
}
