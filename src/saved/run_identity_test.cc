#include "saved/run_identity.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/local_time.h"
#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::train;

TEST_CASE("a run holds its own checkpoints, and those of its ancestors up to the step it went on from") {
  const RunIdentity first = fresh_run(), other = fresh_run();
  CHECK(first.id != other.id);
  CHECK(first.holds(first, 1000));
  CHECK_FALSE(first.holds(other, 1));
  const RunIdentity second = run_from(first, 100), third = run_from(second, 150);
  CHECK(second.holds(first, 100));
  CHECK_FALSE(second.holds(first, 101));
  CHECK(third.holds(first, 100));
  CHECK_FALSE(third.holds(first, 150));
  CHECK(third.holds(second, 150));
  CHECK_FALSE(third.holds(second, 151));
  CHECK_FALSE(first.holds(second, 1));
}

TEST_CASE("the first start stays that of the run, through files") {
  const TemporaryFolder folder;
  CHECK_FALSE(read_run(folder.path()).has_value());
  const RunIdentity first{.id = "0123456789abcdef", .started = "2024-02-29T23:05:09"};
  const RunIdentity second = run_from(first, 7);
  CHECK(second.started == first.started);
  write_run(folder.path(), second);
  CHECK(read_run(folder.path()) == second);
  // A checkpoint of a version that knew no runs.
  const RunIdentity later = run_from({}, 7);
  CHECK(time_from_text(later.started).has_value());
  CHECK(later.holds({}, 7));
}

TEST_CASE("what is no identity of a run is refused") {
  const TemporaryFolder folder;
  for (const char* text : {"", "{", "[]", "{\"version\": 2}", "{\"version\": 1, \"id\": 3}"}) {
    CAPTURE(text);
    write_file(folder.path() / "spillway_run.json", text);
    CHECK_THROWS_WITH_AS((void)read_run(folder.path()),
                         doctest::Contains("expected the identity of a run, version 1, got something else; remove"),
                         InputError);
  }
}
