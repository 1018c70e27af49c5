#include "train/stream_share.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "data/batch.h"
#include "dist/testing/local_peers.h"
#include "graph/builder.h"

using namespace spillway;

namespace {

// The rows of each column that a rank has got.
struct FilledColumns {
  std::vector<int32_t> ids, labels, offsets, own_offsets, own_borders;
};

// A stream of two sequences, of `first` tokens and of all that follow: token t has the id 10 + t and the label 50 + t.
data::MicroBatch stream_of(int32_t tokens, int32_t first) {
  data::MicroBatch stream;
  stream.reserve(tokens);
  for (int32_t t = 0; t < tokens; ++t) {
    stream.ids.push_back(10 + t);
    stream.labels.push_back(50 + t);
    stream.positions.push_back(t < first ? t : t - first);
  }
  stream.seq_offsets = {0, first, tokens};
  return stream;
}

// Returns by rank what each of `ranks` gets of its group's stream, where `context` neighbours share one: group g has
// streams[g].
std::vector<FilledColumns> filled(int ranks, int context, const std::vector<data::MicroBatch>& streams) {
  std::vector<FilledColumns> all(static_cast<size_t>(ranks));
  const std::vector<std::string> errors = run_ranks(ranks, [&](Peers& peers) {
    const data::MicroBatch& stream = nth(streams, peers.rank() / context);
    train::StreamShare share(&peers, context);
    const train::StreamShare::Lengths lengths = {stream.tokens(), 0};
    share.agree({&lengths, 1});
    const int64_t rows = share.rows(0, 0, stream.tokens());
    const infer::Batch batch = infer::batch_of(stream);
    Graph graph{.axes = {{"tokens", 64}}};
    Builder builder(graph);
    const auto column = [&](std::string_view name, const ValueType& type, int64_t elems) {
      const ValueId value = builder.input("batch." + std::string(name), type, ValueKind::kBatch);
      std::vector<int32_t> content(static_cast<size_t>(elems), -1);
      share.fill(graph.value(value), {.column = {.name = name}, .value = value}, batch, 0, kTokenAxis,
                 {content.data(), DType::kI32, {elems}});
      return content;
    };
    const ValueType per_token{DType::kI32, {64}, kTokenAxis}, of_sequences{DType::kI32, {3}};
    nth(all, peers.rank()) = {.ids = column("ids", per_token, rows),
                              .labels = column("labels", per_token, rows),
                              .offsets = column(kSeqOffsets.name, of_sequences, 3),
                              .own_offsets = column(kOwnOffsets.name, of_sequences, 3),
                              .own_borders = column(kOwnBorders.name, of_sequences, 3)};
  });
  for (const std::string& error : errors) CHECK(error == "");
  return all;
}

using Ints = std::vector<int32_t>;
constexpr int32_t kNoLabel = data::kIgnoredLabel;

}  // namespace

TEST_CASE("of a stream of odd length the last rank has rows behind the last token, which repeat it without its label") {
  const std::vector<FilledColumns> ranks = filled(2, 2, {stream_of(7, 3)});
  CHECK(ranks[0].ids == Ints{10, 11, 12, 13});
  CHECK(ranks[1].ids == Ints{14, 15, 16, 16});
  CHECK(ranks[0].labels == Ints{50, 51, 52, 53});
  CHECK(ranks[1].labels == Ints{54, 55, 56, kNoLabel});
  for (const FilledColumns& rank : ranks) CHECK(rank.offsets == Ints{0, 3, 7});
  CHECK(ranks[0].own_offsets == Ints{0, 3, 7});
  CHECK(ranks[1].own_offsets == Ints{-4, -1, 3});
  CHECK(ranks[0].own_borders == Ints{0, 3, 4});
  CHECK(ranks[1].own_borders == Ints{0, 0, 3});
}

TEST_CASE("ranks that share a stream add up numbers, and put those of their rows behind each other") {
  using Numbers = std::vector<double>;
  std::vector<Numbers> sums(4), rows(4);
  const std::vector<std::string> errors = run_ranks(4, [&](Peers& peers) {
    train::StreamShare share(&peers, 2);
    const double rank = peers.rank();
    Numbers &sum = nth(sums, peers.rank()) = {rank, 10 * rank}, &row = nth(rows, peers.rank()) = {rank, -rank};
    Numbers none;
    share.add_up({&sum, &none});
    share.collect({&none, &row});
    CHECK(none.empty());
  });
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(sums[0] == Numbers{1, 10});
  CHECK(sums[1] == sums[0]);
  CHECK(sums[2] == Numbers{5, 50});
  CHECK(rows[1] == Numbers{0, 0, 1, -1});
  CHECK(rows[3] == Numbers{2, -2, 3, -3});
}

// Ranks have rows in multiples of four.
TEST_CASE("ranks behind the last token of a stream have rows without labels, in none of its sequences") {
  const std::vector<FilledColumns> ranks = filled(4, 4, {stream_of(2, 1)});
  CHECK(ranks[0].ids == Ints{10, 11, 11, 11});
  CHECK(ranks[0].labels == Ints{50, 51, kNoLabel, kNoLabel});
  for (const int32_t rank : {1, 2, 3}) {
    CHECK(nth(ranks, rank).ids == Ints(4, 11));
    CHECK(nth(ranks, rank).labels == Ints(4, kNoLabel));
    CHECK(nth(ranks, rank).own_offsets == Ints{-4 * rank, 1 - 4 * rank, 2 - 4 * rank});
  }
}

TEST_CASE("groups have the rows of the longest stream of all of them") {
  const std::vector<FilledColumns> ranks = filled(4, 2, {stream_of(9, 4), stream_of(3, 1)});
  CHECK(ranks[0].ids == Ints{10, 11, 12, 13, 14, 15, 16, 17});
  CHECK(ranks[1].ids == Ints(8, 18));
  CHECK(ranks[1].labels[0] == 58);
  CHECK(std::count(ranks[1].labels.begin(), ranks[1].labels.end(), kNoLabel) == 7);
  CHECK(ranks[2].ids == Ints{10, 11, 12, 12, 12, 12, 12, 12});
  CHECK(std::count(ranks[2].labels.begin(), ranks[2].labels.end(), kNoLabel) == 5);
  CHECK(ranks[3].ids == Ints(8, 12));
  CHECK(ranks[3].labels == Ints(8, kNoLabel));
  CHECK(ranks[3].own_offsets == Ints{-8, -7, -5});
}
