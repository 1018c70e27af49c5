// Compared byte by byte with files that wandb's own writer made of wandb's own messages (tests/golden/trackers).
#include "report/trackers/wandb_run.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "report/trackers/wandb_log.h"
#include "tests/support/source_folder.h"

using namespace spillway;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr double kStart = 1795971462.25;

fs::path golden(const char* name) { return testing::source_folder() / "tests/golden/trackers" / name; }

// Half a second passes between two looks at it.
std::function<double()> clock_from(double first) {
  return [next = first - 0.5]() mutable { return next += 0.5; };
}

WandbRunInfo wandb_run_info() {
  return {.id = "0123abcd",
          .project = "project",
          .entity = "me",
          .name = "a name",
          .group = "group",
          .tags = {"one", "two"},
          .started = "2026-11-29T16:57:42",
          .host = "host",
          .config = {{"learning_rate", 0.0002}, {"adapter", "lora"}, {"bf16", true}, {"lora_r", 16}}};
}

void write_row(WandbRun& run, int64_t step, double loss, double grad_norm) {
  run.begin_step(step);
  run.add("train", "loss", loss);
  run.add("train", "grad_norm", grad_norm);
  run.end_step();
}

void write_run_of_three(const fs::path& folder) {
  WandbRun run(folder, wandb_run_info(), {}, clock_from(kStart));
  write_row(run, 1, 2.5, 0.125);
  write_row(run, 2, 2.25, std::numeric_limits<double>::quiet_NaN());
  run.begin_step(2);
  run.add("eval", "loss", 2.125);
  run.end_step();
  write_row(run, 3, 2.0, 1e-7);
}

const char* const kRun = "offline-run-20261129_165742-0123abcd";

std::string content_in(const fs::path& folder) { return read_file(folder / kRun / "run-0123abcd.wandb", kMaxBytes); }

}  // namespace

TEST_CASE("a run has the bytes that wandb's writer gives it") {
  const TemporaryFolder folder;
  write_run_of_three(folder.path());
  CHECK(content_in(folder.path()) == read_file(golden("run.wandb"), kMaxBytes));
  CHECK(parse_json(read_file(folder.path() / kRun / "files/wandb-metadata.json", kMaxBytes), "file")["host"] == "host");
}

TEST_CASE("a run that goes on takes later steps back, and ends as if it had never stopped") {
  for (const std::string_view rest : {"", "half a record"}) {
    const TemporaryFolder folder;
    write_run_of_three(folder.path());
    std::ofstream(folder.path() / kRun / "run-0123abcd.wandb", std::ios::app) << rest;
    WandbRun run(folder.path(), wandb_run_info(), {.step = 2}, clock_from(kStart + 3));
    write_row(run, 3, 1.75, 1e-7);
    run.finish(RunEnd::kDone);
    CHECK(content_in(folder.path()) == read_file(golden("resumed.wandb"), kMaxBytes));
    CHECK(run.note().find(kRun) != std::string::npos);
  }
}

TEST_CASE("a run that had ended goes on") {
  const TemporaryFolder folder;
  write_run_of_three(folder.path());
  WandbRun(folder.path(), wandb_run_info(), {.step = 3}, clock_from(kStart + 4)).finish(RunEnd::kInterrupted);
  const std::string ended = content_in(folder.path());
  WandbRun run(folder.path(), wandb_run_info(), {.step = 3}, clock_from(kStart + 4));
  CHECK(content_in(folder.path()) == read_file(golden("run.wandb"), kMaxBytes));
  run.finish(RunEnd::kInterrupted);
  CHECK(content_in(folder.path()) == ended);
}

TEST_CASE("an evaluation behind the checkpoint is taken back") {
  const TemporaryFolder folder;
  write_run_of_three(folder.path());
  const int64_t whole = std::ssize(content_in(folder.path()));
  const WandbRun run(folder.path(), wandb_run_info(), {.step = 2, .is_evaluated = false});
  const std::string kept = content_in(folder.path());
  CHECK(std::ssize(kept) < whole);
  CHECK(kept.find("eval/loss") == std::string::npos);
  CHECK(kept.find("2.25") != std::string::npos);
}

TEST_CASE("records go over the ends of blocks as wandb's writer lays them, and are read back") {
  const auto blocks = parse_json(read_file(golden("blocks.json"), kMaxBytes), "blocks.json");
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "x.wandb";
  std::vector<std::string> records;
  for (const int64_t length : blocks["lengths"].get<std::vector<int64_t>>()) {
    std::string& record = records.emplace_back();
    for (int64_t i = 0; i < length; ++i) record += static_cast<char>(31 * (std::ssize(records) - 1) + 7 * i);
  }
  {
    WandbLog log(path);
    for (const std::string& record : records) log.write(record);
  }
  const std::string file = read_file(path, kMaxBytes);
  CHECK(std::ssize(file) == blocks["bytes"].get<int64_t>());
  CHECK(::crc32(0, reinterpret_cast<const unsigned char*>(file.data()), static_cast<uInt>(file.size())) ==
        blocks["crc32"].get<uint32_t>());
  std::vector<std::string> found;
  WandbLog log(path, [&](std::string_view record) {
    found.emplace_back(record);
    return found.size() < 6;
  });
  CHECK(found == std::vector<std::string>(records.begin(), records.begin() + 6));
  for (size_t i = 5; i < records.size(); ++i) log.write(records[i]);
  CHECK(read_file(path, kMaxBytes) == file);
}

TEST_CASE("a file of something else is not continued") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "x.wandb") << "a text";
  CHECK_THROWS_WITH_AS(WandbLog(folder.path() / "x.wandb", [](std::string_view) { return true; }),
                       doctest::Contains("expected a file of wandb's records"), InputError);
}
