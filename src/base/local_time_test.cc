#include "base/local_time.h"

#include <doctest/doctest.h>

#include <array>

using namespace spillway;

TEST_CASE("a time that was kept as text shows the same date, weekday and hour") {
  const auto time = time_from_text("2024-02-29T23:05:09");
  REQUIRE(time.has_value());
  CHECK(time_text(*time) == "2024-02-29T23:05:09");
  std::array<char, 64> shown{};
  CHECK(std::strftime(shown.data(), shown.size(), "%A %d %b %Y %j %H:%M:%S", &*time) > 0);
  CHECK(std::string(shown.data()) == "Thursday 29 Feb 2024 060 23:05:09");
  const std::tm now = local_now();
  const auto again = time_from_text(time_text(now));
  REQUIRE(again.has_value());
  CHECK(again->tm_wday == now.tm_wday);
  CHECK(again->tm_yday == now.tm_yday);
}

TEST_CASE("what is no time is none") {
  for (const char* text : {"", "2024", "2024-02-30T00:00:00", "2024-02-29T23:05:09Z", "2024-13-01T00:00:00"}) {
    CAPTURE(text);
    CHECK_FALSE(time_from_text(text).has_value());
  }
}
