#include "ops/split_rows/split_rows.h"

#include <doctest/doctest.h>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kTiledTokens = 11, kTiledWidth = 23, kTileSize = 4,
                  kTileCount = 3;  // one row of the tiles is behind the last token

constexpr ops::RowTiles kTiles{kTileCount, kRowAxis};

OperandCase whole(DType dtype) {
  return {{dtype, {kTiledTokens, kTiledWidth}, kTokenAxis}, random_numbers(kTiledTokens * kTiledWidth, 1)};
}

}  // namespace

TEST_CASE("tiles that are joined give the rows that they were split from, and gradients go the same way") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_operation({.tokens = kTiledTokens,
                     .rows = kTileSize,
                     .inputs = {whole(dtype)},
                     .build =
                         [](Builder& b, const std::vector<ValueId>& in) {
                           return ops::join_rows(b, ops::split_rows(b, in[0], kTiles), kTokenAxis);
                         },
                     .reference = [](const std::vector<Numbers>& in) { return in[0]; }});
  }
}

TEST_CASE("a tile that is absent, and so its gradient, is zeros") {
  check_operation({.tokens = kTiledTokens,
                   .rows = kTileSize,
                   .inputs = {whole(DType::kF32)},
                   .build =
                       [](Builder& b, const std::vector<ValueId>& in) {
                         std::vector<ValueId> tiles = ops::split_rows(b, in[0], kTiles);
                         tiles[1] = kNone;
                         return ops::join_rows(b, tiles, kTokenAxis);
                       },
                   .reference =
                       [](const std::vector<Numbers>& in) {
                         Numbers out = in[0];
                         for (size_t i = 0; i < out.size(); ++i)
                           if (i / kTiledWidth / kTileSize == 1) out[i] = 0;
                         return out;
                       }});
}

TEST_CASE("rows of a tile behind the last one are zeros") {
  Graph graph;
  Builder b(graph);
  b.add_axis({.name = "tokens", .capacity = kTiledTokens});
  b.add_axis({.name = "tokens of a tile", .capacity = kTileSize});
  const ValueId x = b.input("x", {DType::kF32, {kTiledTokens, kTiledWidth}, kTokenAxis}, ValueKind::kBatch);
  const std::vector<ValueId> tiles = ops::split_rows(b, x, kTiles);
  const Numbers numbers = rounded(random_numbers(kTiledTokens * kTiledWidth, 1), DType::kF32);
  const Run run(graph, {{x, numbers}});
  Numbers expected(numbers.begin() + 2 * kTileSize * kTiledWidth, numbers.end());
  expected.resize(kTileSize * kTiledWidth, 0.0);
  CHECK(run.numbers(tiles[2]) == expected);
}
