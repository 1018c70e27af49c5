#include "ops/deal_columns/deal_columns.h"

#include <doctest/doctest.h>

#include "base/index.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Returns the matrix of which each row of each piece has its blocks.
Numbers dealt(const Numbers& x, const ops::ColumnDeal& deal, int64_t rows, int64_t size) {
  Numbers out;
  for (int64_t rank = 0; rank < deal.ranks; ++rank) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < deal.of_piece() * size; ++i) {
        const int64_t place = rank * deal.of_piece() + i / size, block = place / deal.spread;
        out.push_back(block < deal.blocks ? nth(x, (row * deal.blocks + block) * size + i % size) : 0.0);
      }
    }
  }
  return out;
}

// Returns the sums of all copies of each block.
Numbers collected(const Numbers& pieces, const ops::ColumnDeal& deal, int64_t rows, int64_t size) {
  Numbers out(static_cast<size_t>(rows * deal.blocks * size), 0.0);
  for (int64_t i = 0; i < static_cast<int64_t>(pieces.size()); ++i) {
    const int64_t width = deal.of_piece() * size, rank = i / width / rows, row = i / width % rows;
    const int64_t block = (rank * deal.of_piece() + i % width / size) / deal.spread;
    if (block < deal.blocks) nth(out, (row * deal.blocks + block) * size + i % size) += nth(pieces, i);
  }
  return out;
}

// Sums of copies are rounded to the dtype of what is dealt out.
double gradient_tolerance(DType dtype) { return dtype == DType::kBF16 ? 4e-3 : 1e-5; }

constexpr ops::ColumnDeal kDeals[] = {{2, 4, 1}, {2, 3, 1}, {4, 6, 1}, {2, 3, 3}, {4, 1, 2}, {3, 2, 4}, {8, 3, 2}};

}  // namespace

TEST_CASE("deal_columns gives each rank its blocks of columns, those that do not divide padded with zeros") {
  constexpr int64_t kRows = 5;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ops::ColumnDeal& deal : kDeals) {
      for (const int64_t size : {1, 8, 33}) {
        CAPTURE(deal.ranks);
        CAPTURE(deal.blocks);
        const int64_t width = deal.blocks * size;
        check_operation(
            {.tokens = kRows,
             .inputs = {{{dtype, {kRows, width}}, random_numbers(kRows * width, 1)}},
             .build = [&](Builder& b, const std::vector<ValueId>& in) { return deal_columns(b, in[0], deal, kNoAxis); },
             .reference = [&](const std::vector<Numbers>& in) { return dealt(in[0], deal, kRows, size); },
             .gradient_tolerance = gradient_tolerance(dtype)});
      }
    }
  }
}

TEST_CASE("collect_columns adds up the copies of each block") {
  constexpr int64_t kRows = 5;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ops::ColumnDeal& deal : kDeals) {
      for (const int64_t size : {1, 8, 33}) {
        CAPTURE(deal.ranks);
        CAPTURE(deal.blocks);
        const int64_t rows = deal.ranks * kRows, width = deal.of_piece() * size;
        check_operation(
            {.tokens = kRows,
             .inputs = {{{dtype, {rows, width}}, random_numbers(rows * width, 1)}},
             .build = [&](Builder& b,
                          const std::vector<ValueId>& in) { return collect_columns(b, in[0], deal, kNoAxis); },
             .reference = [&](const std::vector<Numbers>& in) { return collected(in[0], deal, kRows, size); },
             .gradient_tolerance = gradient_tolerance(dtype)});
      }
    }
  }
}
