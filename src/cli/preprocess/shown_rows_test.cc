#include "cli/preprocess/shown_rows.h"

#include <doctest/doctest.h>

#include <vector>

using namespace spillway;

TEST_CASE("completions are shown behind their prompt, and are its targets") {
  data::PreferenceRow pair{.prompt_ids = {1, 2}, .completions = {{3}, {4, 5}}};
  const std::vector<ShownRow> rows = shown_rows(std::vector{pair, pair}, 1);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "row 1, chosen");
  CHECK(rows[1].name == "row 1, rejected");
  CHECK(rows[1].ids == std::vector<int32_t>{1, 2, 4, 5});
  CHECK(rows[1].is_target == std::vector<bool>{false, false, true, true});
  CHECK(rows[1].targets() == 2);
}

TEST_CASE("lengths are counted by powers of two, empty ones between them too") {
  const std::vector<LengthBin> bins = length_bins(std::vector<int64_t>{4, 7, 31, 16, 16});
  REQUIRE(bins.size() == 3);
  CHECK(bins[0].from == 4);
  CHECK(bins[0].to == 7);
  CHECK(bins[0].count == 2);
  CHECK(bins[1].count == 0);
  CHECK(bins[2].to == 31);
  CHECK(bins[2].count == 3);
  CHECK(length_bins({}).empty());
}
