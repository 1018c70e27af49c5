#include "job/online/completion.h"

#include <doctest/doctest.h>

using spillway::train::Completion;

TEST_CASE("a completion that reached its length counts as cut, unless its last token is padding") {
  const Completion stopped{.ids = {5, 2}}, cut{.ids = {5, 6}, .is_truncated = true};
  const Completion padded{.ids = {5, 3}, .is_truncated = true}, empty{.is_truncated = true};
  CHECK_FALSE(stopped.is_cut(3));
  CHECK(cut.is_cut(3));
  CHECK_FALSE(padded.is_cut(3));
  CHECK(padded.is_cut({}));
  CHECK(empty.is_cut(3));
  CHECK(padded.finish_reason() == "length");
}
