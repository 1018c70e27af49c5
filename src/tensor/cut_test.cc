#include "tensor/cut.h"

#include <doctest/doctest.h>

using spillway::Cut;
using spillway::cut_of;

TEST_CASE("a cut gives each element to one rank, in order, from the borders of blocks") {
  for (const int64_t elems : {0, 1, 4095, 4096, 4097, 12288, 100000, 576 * 1536, 49152 * 576}) {
    for (const int ranks : {1, 2, 3, 4, 7, 8, 64, 1000}) {
      CAPTURE(elems);
      CAPTURE(ranks);
      const Cut cut = cut_of(elems, ranks);
      int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        CHECK(cut.begin(rank) == end);
        CHECK((cut.begin(rank) % spillway::kCutBlock == 0 || cut.count(rank) == 0));
        CHECK(cut.count(rank) <= cut.part_elems);
        end += cut.count(rank);
      }
      CHECK(end == elems);
    }
  }
}

TEST_CASE("parts are as small as whole blocks allow") {
  CHECK(cut_of(4096 * 8, 4) == Cut{.elems = 4096 * 8, .part_elems = 8192, .ranks = 4});
  CHECK(cut_of(4096 * 8 + 1, 4).part_elems == 3 * 4096);
  CHECK(cut_of(4096 * 8 + 1, 4).count(2) == 8193 - 4096 + 4096);
  CHECK(cut_of(4096 * 8 + 1, 4).count(3) == 0);
}

TEST_CASE("with more ranks than blocks the last ranks have nothing") {
  const Cut cut = cut_of(5000, 4);
  CHECK(cut.part_elems == 4096);
  CHECK(cut.count(0) == 4096);
  CHECK(cut.count(1) == 904);
  CHECK(cut.count(2) == 0);
  CHECK(cut.begin(3) == 5000);
}

TEST_CASE("each group of neighbours has all parts") {
  const Cut cut = cut_of(4096 * 3 + 5, 2);
  for (const int rank : {0, 1, 2, 3, 4, 5}) {
    CHECK(cut.begin(rank) == rank % 2 * 8192);
    CHECK(cut.end(rank) == (rank % 2 == 0 ? 8192 : 4096 * 3 + 5));
    CHECK(cut.count(rank) == cut.end(rank) - cut.begin(rank));
    CHECK(cut.group_of(rank) == rank / 2 * 2);
  }
}
