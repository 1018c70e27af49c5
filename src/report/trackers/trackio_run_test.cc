// Compared with the records that trackio itself makes (tests/golden/trackers/trackio.jsonl).
#include "report/trackers/trackio_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/source_folder.h"

using namespace spillway;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

TrackioRunInfo trackio_run_info() {
  return {.id = "0123456789abcdef", .project = "project", .name = "a name", .config = {{"lora_r", 16}, {"bf16", true}}};
}

void log_row(TrackioRun& run, int64_t step, std::string_view prefix, double loss) {
  run.begin_step(step);
  run.add(prefix, "loss", loss);
  run.end_step();
}

std::vector<Json> lines_of(const std::string& content) {
  std::vector<Json> lines;
  std::istringstream stream(content);
  for (std::string line; std::getline(stream, line);) lines.push_back(parse_json<Json>(line, "line"));
  return lines;
}

// Returns the lines of all files in the order of their names, which is the one trackio imports them in.
std::vector<Json> lines_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Json> lines;
  for (const fs::path& file : files)
    for (Json& line : lines_of(read_file(file, kMaxFileBytes))) lines.push_back(std::move(line));
  return lines;
}

// Returns the line without what differs from one run to the next.
Json without_time(Json line) {
  line.erase("timestamp");
  return line;
}

}  // namespace

TEST_CASE("a run's lines are the records that trackio makes of the same numbers") {
  const TemporaryFolder folder;
  TrackioRun run(folder.path(), trackio_run_info(), {});
  log_row(run, 1, "train", 2.5);
  log_row(run, 2, "train", std::numeric_limits<double>::quiet_NaN());
  log_row(run, 2, "eval", 2.125);
  log_row(run, 3, "train", -std::numeric_limits<double>::infinity());
  run.finish(RunEnd::kDone);

  const fs::path golden = testing::source_folder() / "tests/golden/trackers/trackio.jsonl";
  const std::vector<Json> expected = lines_of(read_file(golden, kMaxFileBytes)), lines = lines_in(folder.path());
  REQUIRE(lines.size() == expected.size());
  for (size_t i = 0; i < lines.size(); ++i)
    CHECK(nlohmann::json(without_time(lines[i])) == nlohmann::json(expected[i]));
  CHECK(lines[0]["timestamp"].get<std::string>().ends_with("+00:00"));
}

TEST_CASE("no file of a run replaces another one that trackio has not imported") {
  const TemporaryFolder folder;
  TrackioRun run(folder.path(), trackio_run_info(), {});
  for (const char* prefix : {"train", "eval"}) {
    log_row(run, 5, prefix, 1);
    run.sync();
  }
  CHECK(lines_in(folder.path()).size() == 2);
}

TEST_CASE("a run that goes on takes later steps back, and begins the folder that trackio has removed anew") {
  const TemporaryFolder folder;
  {
    TrackioRun run(folder.path(), trackio_run_info(), {});
    log_row(run, 1, "train", 3);
    run.sync();
    log_row(run, 2, "train", 2);
    run.sync();
  }
  TrackioRun run(folder.path(), trackio_run_info(), {.step = 1});
  std::vector<Json> lines = lines_in(folder.path());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["step"] == 1);

  fs::remove_all(folder.path() / "inbox" / trackio_run_info().id);
  log_row(run, 2, "train", 1.5);
  run.sync();
  lines = lines_in(folder.path());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["metrics"]["train/loss"] == 1.5);
}
