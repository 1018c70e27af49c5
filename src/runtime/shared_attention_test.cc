// Tests attention of sequences that ranks share against attention on one rank, which is held to float64 elsewhere.
#include "ops/attention/shared_attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "dist/testing/local_peers.h"
#include "graph/autodiff.h"
#include "graph/verify.h"
#include "ops/add/add.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "plan/planner.h"
#include "plan/verify.h"
#include "runtime/executor.h"

using namespace spillway;

namespace {

constexpr int64_t kWords = 7;

struct AttentionShape {
  int64_t heads = 4, kv_heads = 2, head_size = 8, window = 0;
  bool has_sinks = false;
};

// Attention of weights, so that their gradients are there to compare: a rank's rows of q, k and v, and sinks.
struct AttentionJob {
  Graph graph{.name = "attention"};
  ValueId q, k, v, sinks = kNone, offsets, out, head, labels, scale;
  std::map<ValueId, ValueId> gradients;
  Program program;

  AttentionJob(const AttentionShape& shape, int64_t rows, int64_t ranks, int64_t sequences) {
    Builder b(graph, forward_section());
    b.add_axis({.name = "tokens", .capacity = rows});
    const auto weight = [&](const char* name, Shape of) {
      return b.input(name, {DType::kF32, of}, ValueKind::kTrainableWeight);
    };
    q = weight("q", {rows, shape.heads * shape.head_size});
    k = weight("k", {rows, shape.kv_heads * shape.head_size});
    v = weight("v", {rows, shape.kv_heads * shape.head_size});
    if (shape.has_sinks) sinks = weight("sinks", {shape.heads});
    offsets = b.input("offsets", {DType::kI32, {sequences + 1}}, ValueKind::kBatch);
    const ops::AttentionOptions options{.heads = shape.heads,
                                        .kv_heads = shape.kv_heads,
                                        .head_size = shape.head_size,
                                        .sliding_window = shape.window,
                                        .scale = 0.3};
    out = ranks == 1 ? ops::attention(b, q, k, v, offsets, options, sinks)
                     : ops::shared_attention(b, q, k, v, offsets, options, {ranks, kNoAxis}, sinks);
    b.result(out);
    const int64_t width = shape.heads * shape.head_size;
    head = b.input("head", {DType::kF32, {kWords, width}}, ValueKind::kFrozenWeight);
    labels = b.input("labels", {DType::kI32, {rows}}, ValueKind::kBatch);
    scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
    const ValueId loss = ops::linear_cross_entropy(b, out, head, labels, scale, ops::LossGradients::kInput).loss;
    std::vector<WeightGradient> wanted = {{.weight = q}, {.weight = k}, {.weight = v}};
    if (shape.has_sinks) wanted.push_back({.weight = sinks});
    append_backward(b, loss, wanted, ops::add);
    for (const WeightGradient& one : wanted) {
      gradients[one.weight] = one.gradient;
      b.result(one.gradient);
    }
    for (const std::string& violation : verify(graph)) FAIL_CHECK(violation);
    program = plan_for(graph, Machine{}, uniform_choices(graph, ActivationPolicy::kKeep)).program;
    for (const std::string& violation : verify(graph, program)) FAIL_CHECK(violation);
  }
};

using Rows = std::vector<float>;

// Returns the numbers of rows [first, first + rows) of the whole stream, by rank's row of `width`.
Rows numbers_of(uint64_t seed, int64_t first, int64_t rows, int64_t width) {
  Rows numbers;
  for (int64_t i = first * width; i < (first + rows) * width; ++i) {
    const uint64_t mixed = (static_cast<uint64_t>(i) + seed * 1000003) * 0x9E3779B97F4A7C15u;
    numbers.push_back(static_cast<float>(mixed >> 40) * 0x1p-23f - 1);
  }
  return numbers;
}

struct AttentionResult {
  Rows out, dq, dk, dv, dsinks;
};

// Runs the job on the rows that begin at `first`.
AttentionResult run_attention(const AttentionJob& job, const AttentionShape& shape, int64_t first, int64_t rows,
                              const std::vector<int32_t>& offsets, Peers* peers) {
  ThreadPool pool(1);
  Executor executor(job.graph, job.program, pool, ExecutorOptions{.peers = peers});
  const auto write = [&](ValueId id, const Rows& numbers) {
    executor.values().write(id, [&](const TensorView& piece, int64_t from) {
      std::copy_n(numbers.begin() + from, piece.elems(), piece.as<float>());
    });
  };
  write(job.q, numbers_of(1, first, rows, shape.heads * shape.head_size));
  write(job.k, numbers_of(2, first, rows, shape.kv_heads * shape.head_size));
  write(job.v, numbers_of(3, first, rows, shape.kv_heads * shape.head_size));
  if (shape.has_sinks) write(job.sinks, numbers_of(4, 0, 1, shape.heads));
  write(job.head, numbers_of(5, 0, kWords, shape.heads * shape.head_size));
  for (int64_t i = 0; i < rows; ++i)
    executor.home(job.labels).as<int32_t>()[i] = static_cast<int32_t>((first + i) * (first + i) % kWords);
  *executor.home(job.scale).as<float>() = 1;
  std::copy(offsets.begin(), offsets.end(), executor.home(job.offsets).as<int32_t>());
  const auto read = [&](size_t result) {
    const TensorView view = executor.result(result);
    return Rows(view.as<float>(), view.as<float>() + view.elems());
  };
  executor.run(0);
  AttentionResult result{.out = read(0)};
  executor.run(1);
  result.dq = read(1);
  result.dk = read(2);
  result.dv = read(3);
  if (shape.has_sinks) result.dsinks = read(4);
  return result;
}

void check_rows(const Rows& got, const Rows& whole, int64_t first, double tolerance) {
  double largest = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = nth(whole, first + static_cast<int64_t>(i));
    largest = std::max(largest, std::abs(want));
    worst = std::max(worst, std::abs(got[i] - want));
  }
  if (worst > tolerance * std::max(1.0, largest)) throw machine_error("rows", "a difference of {}", worst);
}

void check_attention(const AttentionShape& shape, int64_t ranks, int64_t rows, const std::vector<int32_t>& offsets) {
  CAPTURE(ranks);
  CAPTURE(shape.heads);
  const int64_t sequences = std::ssize(offsets) - 1;
  const AttentionJob alone(shape, rows * ranks, 1, sequences), shared(shape, rows, ranks, sequences);
  const AttentionResult whole = run_attention(alone, shape, 0, rows * ranks, offsets, nullptr);
  const int64_t q_width = shape.heads * shape.head_size, k_width = shape.kv_heads * shape.head_size;
  std::vector<Rows> sinks(static_cast<size_t>(ranks));
  const std::vector<std::string> errors = run_ranks(static_cast<int>(ranks), [&](Peers& peers) {
    const int64_t first = peers.rank() * rows;
    const AttentionResult mine = run_attention(shared, shape, first, rows, offsets, &peers);
    check_rows(mine.out, whole.out, first * q_width, 0);
    check_rows(mine.dq, whole.dq, first * q_width, 1e-6);
    check_rows(mine.dk, whole.dk, first * k_width, 1e-6);
    check_rows(mine.dv, whole.dv, first * k_width, 1e-6);
    nth(sinks, peers.rank()) = mine.dsinks;
  });
  for (const std::string& error : errors) CHECK(error == "");
  if (!shape.has_sinks) return;
  for (int64_t head = 0; head < shape.heads; ++head) {
    double sum = 0;
    for (const Rows& of_rank : sinks) sum += nth(of_rank, head);
    CHECK(sum == doctest::Approx(nth(whole.dsinks, head)).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("attention over ranks that share sequences is that of one rank, heads and lengths that divide or not") {
  const std::vector<int32_t> packed = {0, 3, 4, 17, 23, 23};  // the last rows belong to no sequence
  for (const int64_t ranks : {2, 4}) {
    const int64_t rows = 24 / ranks;
    check_attention({.heads = 4, .kv_heads = 4}, ranks, rows, packed);
    check_attention({.heads = 8, .kv_heads = 2}, ranks, rows, packed);  // two ranks of four read one key head
    check_attention({.heads = 6, .kv_heads = 2}, ranks, rows, packed);
    check_attention({.heads = 9, .kv_heads = 3}, ranks, rows, packed);
    check_attention({.heads = 5, .kv_heads = 1}, ranks, rows, packed);  // the last of four ranks has no head
    check_attention({.heads = 4, .kv_heads = 2, .window = 3, .has_sinks = true}, ranks, rows, packed);
    check_attention({.heads = 4, .kv_heads = 2}, ranks, rows, {0, 1, 1});  // shorter than the ranks are many
  }
  check_attention({.heads = 9, .kv_heads = 3, .has_sinks = true}, 8, 40, {0, 130, 301});
}
