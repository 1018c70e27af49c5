#include "saved/output_room.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/support/captured.h"

using namespace spillway;
using config::Interval;

namespace {

constexpr int64_t kTooMuch = int64_t{1} << 60;

config::OutputSettings saved_every(int64_t steps, std::optional<int64_t> limit = {}) {
  config::OutputSettings output;
  output.save = {.kind = Interval::Kind::kSteps, .step_count = {.value = static_cast<double>(steps)}};
  output.save_total_limit = limit;
  return output;
}

}  // namespace

TEST_CASE("checkpoints to come are those of every interval and of the last step, as many as are kept at once") {
  CHECK(train::checkpoints_to_come(saved_every(10), 0, 100, 50, 0) == 10);
  CHECK(train::checkpoints_to_come(saved_every(10), 0, 101, 50, 0) == 11);
  CHECK(train::checkpoints_to_come(saved_every(10), 95, 101, 50, 9) == 2);
  CHECK(train::checkpoints_to_come(saved_every(10), 100, 100, 50, 10) == 0);
  CHECK(train::checkpoints_to_come(saved_every(10, 2), 0, 100, 50, 0) == 3);
  CHECK(train::checkpoints_to_come(saved_every(10, 2), 40, 100, 50, 2) == 1);
  CHECK(train::checkpoints_to_come(saved_every(10, 2), 95, 100, 50, 0) == 1);
  CHECK(train::checkpoints_to_come({.save = {.kind = Interval::Kind::kNever}}, 0, 100, 50, 0) == 0);
  CHECK(train::checkpoints_to_come({.save = {.kind = Interval::Kind::kPerEpoch}}, 0, 100, 50, 0) == 2);
  CHECK(train::checkpoints_to_come({.save = {.kind = Interval::Kind::kBest}}, 0, 100, 50, 0) == 1);
}

TEST_CASE("a disk without room for the model and one checkpoint is refused, one without room for all is told of") {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder.path() / "new";
  CHECK(capture([&] {
          train::check_room(output, {1, 2}, 3);
          return 0;
        }).err.empty());
  CHECK(capture([&] {
          train::check_room(output, {1, kTooMuch}, 0);
          return 0;
        }).err.empty());
  CHECK_THROWS_AS(train::check_room(output, {kTooMuch, kTooMuch}, 0), InputError);
  CHECK_THROWS_AS(train::check_room(output, {1, kTooMuch}, 1), InputError);
  const Captured warned = capture([&] {
    train::check_room(output, {1, 1024}, kTooMuch);
    return 0;
  });
  CHECK(warned.err.find("checkpoints of 1.0 KiB") != std::string::npos);
  CHECK(warned.err.find("set save_total_limit") != std::string::npos);
}
