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

TEST_CASE("lengths are shown of all rows that were read, before they are cut, with what that loses") {
  data::DatasetSummary read{
      .truncated = 1, .tokens = 30, .tokens_cut = 6, .tokens_too_long = 4, .lengths = data::LengthTally(20)};
  for (const int64_t length : {5, 5, 18, 26}) read.lengths.add(length);
  CHECK(text_of_lengths(read) ==
        "  tokens             rows read\n"
        "       4 to 7                2  ########################################\n"
        "       8 to 15               0\n"
        "      16 to 20               1  ####################\n"
        "      21 to 31               1  --------------------\n"
        "1 of 4 rows are longer than 20 tokens; 1 rows are truncated, 0 dropped as too long: 10 of 40 tokens are lost, "
        "25.0%\n");
}
