#include "data/batch.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"

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

MicroBatch make_micro_batch(const RowTable& rows, const std::vector<int64_t>& indices) {
  std::vector<Piece> pieces;
  for (const int64_t index : indices) pieces.push_back(rows.row(index));
  MicroBatch batch{.ids = {9, 9}, .targets = 7};  // what was there must be gone
  fill_micro_batch(batch, rows, pieces);
  CHECK(count_targets(rows, pieces) == batch.targets);
  return batch;
}

// The rows of each line; rows of one length begin at its multiples.
std::vector<std::vector<int64_t>> rows_of_lines(const EpochPlan& plan, int64_t row_length) {
  std::vector<std::vector<int64_t>> result;
  for (int64_t i = 0; i < plan.micro_batches(); ++i) {
    auto& rows = result.emplace_back();
    for (const Piece& piece : plan.micro_batch(i)) rows.push_back(piece.begin / row_length);
  }
  return result;
}

}  // namespace

TEST_CASE("a token predicts the next one of its own sequence, the last predicts nothing") {
  std::vector<Row> rows = rows_of_lengths({3, 2});
  rows[0].labels = {-100, 1, 2};
  const MicroBatch batch = make_micro_batch(RowTable(rows), {0, 1});
  CHECK(batch.ids == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(batch.labels == std::vector<int32_t>{1, 2, -100, 4, -100});
  CHECK(batch.positions == std::vector<int32_t>{0, 1, 2, 0, 1});
  CHECK(batch.seq_offsets == std::vector<int32_t>{0, 3, 5});
  CHECK(batch.targets == 3);
}

TEST_CASE("the label of a sequence's first token is never a target") {
  std::vector<Row> rows = rows_of_lengths({2});
  rows[0].labels = {0, -100};
  CHECK(make_micro_batch(RowTable(rows), {0}).targets == 0);
}

TEST_CASE("a sequence of several pieces goes on in position and target") {
  const RowTable rows(rows_of_lengths({3, 2, 2}));
  const std::vector<Piece> pieces = {
      {.begin = 1, .length = 2}, {.begin = 3, .length = 2, .continues = true}, rows.row(2)};
  MicroBatch batch;
  fill_micro_batch(batch, rows, pieces);
  CHECK(batch.ids == std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  CHECK(batch.labels == std::vector<int32_t>{2, 3, 4, -100, 6, -100});
  CHECK(batch.positions == std::vector<int32_t>{0, 1, 2, 3, 0, 1});
  CHECK(batch.seq_offsets == std::vector<int32_t>{0, 4, 6});
  CHECK(batch.targets == 4);
  CHECK(count_targets(rows, pieces) == 4);
}

TEST_CASE("without shuffling rows come in file order, the last micro-batch may be short") {
  const auto plan = plan_epoch(RowTable(rows_of_lengths({4, 4, 4, 4, 4})), {.rows = 2, .order = RowOrder::kFile}, 0);
  CHECK(rows_of_lines(plan, 4) == std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("the last micro-batch of an epoch is left out where it is smaller and the options say so") {
  const RowTable five(rows_of_lengths({4, 4, 4, 4, 4})), four(rows_of_lengths({4, 4, 4, 4}));
  const BatchOptions in_order{.rows = 2, .order = RowOrder::kFile, .drops_last = true};
  const std::vector<std::vector<int64_t>> whole = {{0, 1}, {2, 3}};
  CHECK(rows_of_lines(plan_epoch(five, in_order, 0), 4) == whole);
  CHECK(rows_of_lines(plan_epoch(four, in_order, 0), 4) == whole);
  CHECK(plan_epoch(five, {.rows = 6, .drops_last = true}, 0).micro_batches() == 0);
  // If rows are shuffled or packed, the last ones of the order are left out.
  for (const auto packing : {std::optional<PackingStrategy>(), {PackingStrategy::kBfd}, {PackingStrategy::kFirstFit}}) {
    BatchOptions options{.rows = 2, .sequence_len = 4, .packing = packing};
    const auto all = rows_of_lines(plan_epoch(five, options, 3), 4);
    options.drops_last = true;
    CHECK(rows_of_lines(plan_epoch(five, options, 3), 4) == std::vector(all.begin(), all.begin() + 2));
  }
}

TEST_CASE("every epoch has each row once, in an order of its own that the seed decides") {
  const RowTable rows(rows_of_lengths(std::vector<int>(50, 3)));
  for (const auto packing : {std::optional<PackingStrategy>(), {PackingStrategy::kBfd}, {PackingStrategy::kFirstFit}}) {
    const auto order = [&](uint64_t seed, int64_t epoch) {
      std::vector<int64_t> flat;
      const auto plan = plan_epoch(rows, {.rows = 4, .sequence_len = 7, .packing = packing, .seed = seed}, epoch);
      for (const auto& batch : rows_of_lines(plan, 3)) flat.insert(flat.end(), batch.begin(), batch.end());
      return flat;
    };
    CHECK(order(1, 0) == order(1, 0));
    CHECK(order(1, 0) != order(1, 1));
    CHECK(order(1, 0) != order(2, 0));
    std::vector<int64_t> sorted = order(1, 5);
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(sorted.size() == 50);
    for (int64_t i = 0; i < 50; ++i) CHECK(nth(sorted, i) == i);
  }
}

TEST_CASE("first fit takes the longest rows first and leaves lines and their rows in file order") {
  const RowTable rows(rows_of_lengths({2, 3, 5, 4, 6, 10}));
  const auto plan = plan_epoch(
      rows, {.rows = 1, .sequence_len = 10, .packing = PackingStrategy::kFirstFit, .order = RowOrder::kFile}, 0);
  std::vector<std::vector<int64_t>> begins;
  for (int64_t i = 0; i < plan.lines.size(); ++i) {
    auto& line = begins.emplace_back();
    for (const Piece& piece : plan.lines.line(i)) line.push_back(piece.begin);
  }
  CHECK(begins == std::vector<std::vector<int64_t>>{{0, 2, 5}, {10, 14}, {20}});
}

TEST_CASE("grouping by length brings rows of like length together, the longest first") {
  std::vector<int> lengths;
  for (int i = 0; i < 400; ++i) lengths.push_back(1 + i * 37 % 101);
  const RowTable rows(rows_of_lengths(lengths));
  const auto spread = [&](RowOrder order) {
    const auto plan = plan_epoch(rows, {.rows = 4, .sequence_len = 128, .order = order}, 1);
    int64_t sum = 0;
    for (int64_t i = 0; i < plan.micro_batches(); ++i) {
      const auto batch = plan.micro_batch(i);
      const auto [least, most] =
          std::minmax_element(batch.begin(), batch.end(), [](auto& a, auto& b) { return a.length < b.length; });
      sum += most->length - least->length;
    }
    return sum;
  };
  CHECK(spread(RowOrder::kGroupedByLength) * 5 < spread(RowOrder::kShuffled));
  const auto plan = plan_epoch(rows, {.rows = 4, .sequence_len = 128, .order = RowOrder::kGroupedByLength}, 1);
  CHECK(plan.lines.pieces.front().length == 101);
  CHECK(plan.lines.size() == 400);
}

TEST_CASE("what is left of an epoch are the lines behind those that were trained on, in batches of another size") {
  std::vector<int> lengths;
  for (int i = 0; i < 37; ++i) lengths.push_back(1 + i * 7 % 10);
  const RowTable rows(rows_of_lengths(lengths));
  const BatchOptions plain{.rows = 2, .sequence_len = 16, .step_batches = 2};
  BatchOptions packed = plain, grouped = plain, in_file_order = plain;
  packed.packing = PackingStrategy::kFirstFit;
  grouped.order = RowOrder::kGroupedByLength;
  in_file_order.order = RowOrder::kFile;
  for (const BatchOptions& before : {plain, packed, grouped, in_file_order}) {
    BatchOptions now = before;
    now.rows = 3;
    now.step_batches = 1;
    const EpochPlan whole = plan_epoch(rows, before, 2);
    const int64_t done = 2 * before.rows * before.step_batches;
    std::vector<int64_t> begins;  // of the sequences, those of the first two steps first
    for (const Piece& piece : whole.lines.between(0, done)) begins.push_back(piece.begin);
    const EpochPlan rest = plan_rest(rows, now, 2, {done, before.rows, before.step_batches});
    CHECK(rest.micro_batches() == (whole.lines.size() - done + 2) / 3);
    for (int64_t i = 0; i < rest.micro_batches(); ++i)
      for (const Piece& piece : rest.micro_batch(i)) begins.push_back(piece.begin);
    std::sort(begins.begin(), begins.end());
    std::vector<int64_t> each;
    for (int64_t i = 0; i < rows.size(); ++i) each.push_back(rows.row(i).begin);
    std::sort(each.begin(), each.end());
    CHECK(begins == each);
    now.drops_last = true;
    const EpochPlan cut = plan_rest(rows, now, 2, {done, before.rows, before.step_batches});
    CHECK(cut.lines.size() == rest.lines.size() / 3 * 3);
    CHECK(cut.left_out == rest.lines.size() % 3);
  }
}

TEST_CASE("which rows share a line is the matter of another seed than their order") {
  const RowTable rows(rows_of_lengths(std::vector<int>(12, 3)));
  const auto lines = [&](uint64_t seed, uint64_t packing_seed) {
    auto batches = rows_of_lines(plan_epoch(rows,
                                            {.rows = 1,
                                             .sequence_len = 6,
                                             .packing = PackingStrategy::kBfd,
                                             .shuffle_before_packing = true,
                                             .packing_seed = packing_seed,
                                             .seed = seed},
                                            0),
                                 3);
    std::sort(batches.begin(), batches.end());
    return batches;
  };
  CHECK(lines(1, 7) == lines(2, 7));
  CHECK(lines(1, 7) != lines(1, 8));
}

TEST_CASE("rows that are too long for a line of their own are cut to it") {
  const auto plan = plan_epoch(RowTable(rows_of_lengths({9})), {.sequence_len = 4}, 0);
  CHECK(plan.lines.pieces == std::vector<Piece>{{.begin = 0, .length = 4}});
}

TEST_CASE("validation rows are taken by share or number, the same for one seed, and no row is lost") {
  const RowTable rows(rows_of_lengths(std::vector<int>(10, 2)));
  const auto [training, validation] = split_validation(rows, 0.25, 3);
  CHECK(validation.size() == 3);
  CHECK(training.size() == 7);
  CHECK(split_validation(rows, 3, 3).second.row(0) == validation.row(0));
  CHECK(split_validation(rows, 0, 3).first.size() == 10);
  CHECK(split_validation(10, 0.25, std::nullopt).validation == std::vector<int64_t>{7, 8, 9});
  CHECK(split_validation(10, 0.25, std::nullopt).training == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK_THROWS_WITH_AS((void)split_validation(training, 7, 3),
                       "[val_set_size] expected fewer than the 7 rows there are, got 7; lower it", InputError);
}
