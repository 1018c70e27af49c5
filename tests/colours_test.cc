// Tests which output is coloured at a terminal, and when colours are off.
#include <doctest/doctest.h>

#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/terminal.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("at a terminal the place of an error is red, unless NO_COLOR is set; a pipe gets plain text") {
  const std::vector<std::string> args = {"plan", "/nothing/here.yml"};
  constexpr const char* kRed = "\033[31m[/nothing/here.yml]\033[0m expected ";
  const auto screen = [&] {
    Terminal terminal(args);
    CHECK(terminal.wait() == 2);
    return terminal.screen();
  };
  {
    const Environment none(Variables{{"NO_COLOR", std::nullopt}});
    CHECK(screen().find(kRed) != std::string::npos);
  }
  const Environment no_color(Variables{{"NO_COLOR", "1"}});
  const std::string plain = screen();
  CHECK(plain.find("\033[31m") == std::string::npos);
  CHECK(plain.find("[/nothing/here.yml] expected ") != std::string::npos);
  CHECK(run_spillway(args).err.find('\033') == std::string::npos);
}
