#include "data/rows/row_table.h"

#include <doctest/doctest.h>

using namespace spillway::data;

TEST_CASE("a table shows its rows, and a selection of a selection the rows that are meant") {
  const RowTable table(std::vector<Row>{{{1, 2}, {1, 2}}, {{3}, {-100}}, {{4, 5, 6}, {4, -100, 6}}});
  CHECK(table.size() == 3);
  CHECK(table.row(2) == Piece{.begin = 3, .length = 3});
  CHECK(table.labels(table.row(2))[1] == kIgnoredLabel);
  CHECK(table.largest_id() == 6);
  const RowTable some = table.select({2, 0}), one = some.select({1});
  CHECK(some.length(0) == 3);
  REQUIRE(one.size() == 1);
  CHECK(one.ids(one.row(0))[0] == 1);
  CHECK(RowTable().empty());
}

TEST_CASE("columns per row follow a selection") {
  const RowTable table(std::vector<Row>{{.input_ids = {1, 2}, .values = {1, 0}}, {.input_ids = {3}, .values = {0, 1}}},
                       kUnpairedColumns);
  const RowTable second = table.select({1});
  CHECK(table.value("prompt_tokens", 0) == 1);
  CHECK(second.value("prompt_tokens", 0) == 0);
  CHECK(second.value("label", 0) == 1);
  CHECK(table.checksum() != second.checksum());
}

TEST_CASE("the largest id of a table may be a label's") {
  CHECK(RowTable(std::vector<Row>{{{1, 2}, {-100, 300}}, {{7}, {-100}}}).largest_id() == 300);
}
