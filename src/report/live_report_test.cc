#include "report/live_report.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/temporary_folder.h"

using namespace spillway;

TEST_CASE("the first report of a run is due at once, the next after two seconds") {
  LiveReportPace pace;
  CHECK(pace.is_due(100));
  pace.wrote(100, 100.001);
  CHECK_FALSE(pace.is_due(101.9));
  CHECK(pace.is_due(102.1));
}

TEST_CASE("reports that take long are written seldom: they take half a per cent of the run at most") {
  LiveReportPace pace;
  double now = 0, spent = 0;
  for (; now < 10'000; now += 0.5) {
    if (!pace.is_due(now)) continue;
    pace.wrote(now, now + 0.4);
    now += 0.4;
    spent += 0.4;
  }
  CHECK(spent / now <= 0.0052);
  CHECK(spent / now > 0.004);
  pace.give_up();
  CHECK_FALSE(pace.is_due(1e9));
}

TEST_CASE("a file that is replaced has all of its new content, and nothing is left beside it") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "page.html";
  for (const std::string& content : {std::string(100'000, 'a'), std::string("short")}) {
    replace_file(path, content);
    std::ifstream stream(path);
    CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == content);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS(replace_file(folder.path() / "none" / "page.html", "x"));
}
