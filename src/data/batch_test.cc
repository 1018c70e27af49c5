#include "data/batch.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"

using namespace spillway;
using namespace spillway::data;

namespace {

std::vector<Row> rows_of_lengths(const std::vector<int>& lengths) {
  std::vector<Row> rows;
  int32_t id = 0;
  for (const int length : lengths) {
    Row row;
    for (int i = 0; i < length; ++i) row.input_ids.push_back(id++);
    row.labels = row.input_ids;
    rows.push_back(row);
  }
  return rows;
}

MicroBatch make_micro_batch(const std::vector<Row>& rows, const std::vector<int64_t>& indices) {
  MicroBatch batch{.ids = {9, 9}, .targets = 7};  // what was there must be gone
  fill_micro_batch(batch, rows, indices);
  return batch;
}

}  // namespace

TEST_CASE("a token predicts the next one of its own sequence, the last predicts nothing") {
  std::vector<Row> rows = rows_of_lengths({3, 2});
  rows[0].labels = {-100, 1, 2};
  const MicroBatch batch = make_micro_batch(rows, {0, 1});
  CHECK(batch.ids == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(batch.labels == std::vector<int32_t>{1, 2, -100, 4, -100});
  CHECK(batch.positions == std::vector<int32_t>{0, 1, 2, 0, 1});
  CHECK(batch.seq_offsets == std::vector<int32_t>{0, 3, 5});
  CHECK(batch.targets == 3);
  CHECK(count_targets(rows[0]) + count_targets(rows[1]) == 3);
}

TEST_CASE("the label of a sequence's first token is never a target") {
  std::vector<Row> rows = rows_of_lengths({2});
  rows[0].labels = {0, -100};
  CHECK(make_micro_batch(rows, {0}).targets == 0);
}

TEST_CASE("without shuffling rows come in file order, the last micro-batch may be short") {
  const auto batches = plan_epoch(rows_of_lengths({4, 4, 4, 4, 4}), {.rows = 2, .shuffle = false}, 0);
  CHECK(batches == std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("every epoch has each row once, in an order of its own that the seed decides") {
  const std::vector<Row> rows = rows_of_lengths(std::vector<int>(50, 3));
  const auto order = [&](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> flat;
    for (const auto& batch : plan_epoch(rows, {.rows = 4, .seed = seed}, epoch))
      flat.insert(flat.end(), batch.begin(), batch.end());
    return flat;
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(2, 0));
  std::vector<int64_t> sorted = order(1, 5);
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 50; ++i) CHECK(sorted[static_cast<size_t>(i)] == i);
}

TEST_CASE("packing takes the longest rows first and leaves bins and their rows in file order") {
  const auto bins = plan_epoch(rows_of_lengths({2, 3, 5, 4, 6, 10}),
                               {.rows = 1, .sequence_len = 10, .packing = true, .shuffle = false}, 0);
  CHECK(bins == std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4}, {5}});
}

TEST_CASE("every epoch packs all rows into equally many bins, none over its capacity") {
  std::vector<int> lengths;
  for (int i = 0; i < 200; ++i) lengths.push_back(1 + i * i % 31);
  const std::vector<Row> rows = rows_of_lengths(lengths);
  std::vector<size_t> counts;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen;
    const auto bins = plan_epoch(rows, {.rows = 1, .sequence_len = 40, .packing = true}, epoch);
    for (const std::vector<int64_t>& bin : bins) {
      int64_t tokens = 0;
      for (const int64_t row : bin) tokens += lengths[static_cast<size_t>(row)];
      CHECK(tokens <= 40);
      seen.insert(seen.end(), bin.begin(), bin.end());
    }
    std::sort(seen.begin(), seen.end());
    REQUIRE(seen.size() == rows.size());
    for (size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == static_cast<int64_t>(i));
    counts.push_back(bins.size());
  }
  CHECK(counts == std::vector<size_t>(3, counts[0]));
}

TEST_CASE("validation rows are taken by share or number, the same for one seed, and no row is lost") {
  std::vector<Row> rows = rows_of_lengths(std::vector<int>(10, 2)), again = rows;
  const std::vector<Row> validation = split_validation(rows, 0.25, 3);
  CHECK(validation.size() == 3);
  CHECK(rows.size() == 7);
  CHECK(split_validation(again, 3, 3)[0].input_ids == validation[0].input_ids);
  CHECK_THROWS_WITH_AS((void)split_validation(rows, 7, 3),
                       "[val_set_size] expected fewer than the 7 rows there are, got 7; lower it", InputError);
}
