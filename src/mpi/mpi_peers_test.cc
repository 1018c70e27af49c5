// Whole jobs of ranks_probe under mpirun.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <unistd.h>
#include <array>
#include <cstdio>
#include <string>

namespace {

struct Ended {
  int status = 0;
  std::string text;
};

Ended run_probe(int ranks, const std::string& scenario) {
  const std::string command = fmt::format(
      "env {} mpirun -q --bind-to none --map-by slot:OVERSUBSCRIBE -n {} " SPILLWAY_RANKS_PROBE " {} 2>&1 </dev/null",
      ::geteuid() == 0 ? "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" : "", ranks, scenario);
  Ended result;
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  for (size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    result.text.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

bool says(const Ended& ended, const std::string& text) { return ended.text.find(text) != std::string::npos; }

// Returns how often `text` stands there.
int count(const Ended& ended, const std::string& text) {
  int times = 0;
  for (size_t at = ended.text.find(text); at != std::string::npos; at = ended.text.find(text, at + 1)) ++times;
  return times;
}

}  // namespace

TEST_CASE("ranks fold in order, gather and exchange, by shared memory and by messages") {
  for (const int ranks : {2, 4}) {
    for (const char* scenario : {"collectives", "collectives messages"}) {
      CAPTURE(ranks);
      CAPTURE(std::string(scenario));
      const Ended ended = run_probe(ranks, scenario);
      CHECK(ended.status == 0);
      CHECK(ended.text == fmt::format("{} ranks agree\n", ranks));
    }
  }
}

TEST_CASE("a rank that is killed is named once, by its host, and the job ends") {
  const Ended ended = run_probe(4, "killed");
  CAPTURE(ended.text);
  CHECK(ended.status == 137);
  CHECK(count(ended, "[rank 1 on ") == 1);
  CHECK(says(ended, "] expected it to take part in an exchange, got its end; see what it said"));
}

TEST_CASE("a silent rank is named behind the deadline, and the job ends") {
  for (const char* scenario : {"silent", "silent messages"}) {
    const Ended ended = run_probe(2, scenario);
    CAPTURE(ended.text);
    CHECK(ended.status == 3);
    CHECK(count(ended, "[rank 1 on ") == 1);
    CHECK(says(ended, "] expected a sign of life within 2 s, got none"));
  }
}

TEST_CASE("a rank that fails ends all with its status and its message alone") {
  for (const auto& [scenario, status] : {std::pair{"wrong\\ input", 2}, std::pair{"wrong\\ machine", 3}}) {
    const Ended ended = run_probe(3, scenario);
    CAPTURE(ended.text);
    CHECK(ended.status == status);
    CHECK(says(ended, "[here] expected something else, got this; change it"));
    CHECK_FALSE(says(ended, "[rank"));
  }
  CHECK(run_probe(2, "aborts").status == 3);
}

TEST_CASE("a rank that leaves while others exchange is no deadlock") {
  const Ended ended = run_probe(2, "leaves");
  CAPTURE(ended.text);
  CHECK(ended.status == 3);
}
