#include "base/bytes.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace spillway;

TEST_CASE("sizes are read in bytes, binary and decimal units and percent") {
  CHECK(parse_bytes("4096", 0, "k") == 4096);
  CHECK(parse_bytes("512MiB", 0, "k") == 512 * kMiB);
  CHECK(parse_bytes("1.5 GiB", 0, "k") == 3 * kGiB / 2);
  CHECK(parse_bytes("2GB", 0, "k") == 2'000'000'000);
  CHECK(parse_bytes("80%", 1000, "k") == 800);
}

TEST_CASE("a size that cannot be read names its key") {
  for (const char* text : {"", "MiB", "-1", "12 parsecs", "nan", "1e300", "%", "101%"}) {
    CAPTURE(text);
    CHECK_THROWS_AS((void)parse_bytes(text, 1000, "memory.device"), InputError);
  }
  CHECK_THROWS_WITH((void)parse_bytes("x", 0, "memory.device"),
                    "[memory.device] expected a size such as 4096, 512MiB, 12GiB or 80%, got 'x'; write one of these");
}

TEST_CASE("sizes print with one unit") {
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1129 * kKiB) == "1.1 MiB");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(400 * kMiB) == "400.0 MiB");
  CHECK(format_bytes(12 * kGiB) == "12.00 GiB");
}

TEST_CASE("a size that a budget is set to is printed so that the budget holds it") {
  CHECK(format_bytes_up(512) == "512 B");
  CHECK(format_bytes_up(1536) == "1.5 KiB");
  CHECK(format_bytes_up(1129 * kKiB) == "1.2 MiB");
  CHECK(format_bytes_up(12 * kGiB) == "12.00 GiB");
  for (const int64_t bytes : {int64_t{1023}, int64_t{1025}, kMiB - 1, kMiB + 1, 7 * kGiB / 3, int64_t{1} << 41}) {
    CAPTURE(bytes);
    CHECK(parse_bytes(format_bytes_up(bytes), 0, "x") >= bytes);
    CHECK(parse_bytes(format_bytes_up(bytes), 0, "x") <= bytes + bytes / 10);
  }
}
