#include "base/home.h"

#include <doctest/doctest.h>

#include "tests/support/environment.h"

using namespace spillway;
using spillway::testing::Environment;

TEST_CASE("the home folder stands for ~ at the beginning of a path, and nowhere else") {
  const Environment home{{{"HOME", "/home/ada"}}};
  CHECK(expand_home("~") == "/home/ada");
  CHECK(expand_home("~/runs/x") == "/home/ada/runs/x");
  for (const char* path : {"", "~ada/x", "a/~/x", "./~", "/x"}) CHECK(expand_home(path) == path);
  const Environment homeless{{{"HOME", {}}}};
  CHECK(expand_home("~/x") == "~/x");
}
