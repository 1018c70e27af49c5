#include "data/rows/length_tally.h"

#include <doctest/doctest.h>

using namespace spillway::data;

TEST_CASE("lengths are counted by powers of two, empty ones between them too, and apart behind the limit") {
  LengthTally tally(20);
  for (const int64_t length : {4, 7, 17, 20, 21, 31, 130}) tally.add(length);
  CHECK(tally.bins() == std::vector<LengthBin>{{4, 7, 2, false},
                                               {8, 15, 0, false},
                                               {16, 20, 2, false},
                                               {21, 31, 2, true},
                                               {32, 63, 0, true},
                                               {64, 127, 0, true},
                                               {128, 255, 1, true}});
  CHECK(tally.rows() == 7);
  CHECK(tally.rows_over() == 3);
  CHECK(lengths_from_json(to_json(tally)).bins() == tally.bins());
  CHECK(LengthTally(5).bins().empty());
}

TEST_CASE("a limit at a power of two splits no bin") {
  LengthTally tally(16);
  for (const int64_t length : {0, 1, 16, 17}) tally.add(length);
  CHECK(tally.bins() == std::vector<LengthBin>{{0, 0, 1, false},
                                               {1, 1, 1, false},
                                               {2, 3, 0, false},
                                               {4, 7, 0, false},
                                               {8, 15, 0, false},
                                               {16, 16, 1, false},
                                               {17, 31, 1, true}});
}

TEST_CASE("a length is found that few rows are longer than") {
  LengthTally tally(20);
  for (int i = 0; i < 5; ++i) tally.add(10);
  for (int i = 0; i < 4; ++i) tally.add(40);
  tally.add(100);
  CHECK(tally.length_for(0.1) == 64);  // one of ten is longer
  CHECK(tally.length_for(0.09) == 128);
  CHECK(tally.length_for(0.5) == 0);
}
