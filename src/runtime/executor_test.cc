#include "runtime/executor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include "backend/testing/delayed_device.h"
#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/temporary_folder.h"
#include "plan/verify.h"
#include "runtime/testing/scripted_lanes.h"
#include "tests/support/count_allocations.h"
#include "tests/support/random_run.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// The values of this job span several blocks of the disk.
constexpr RandomGraphOptions kLarge = {.max_bytes = 30000};

int64_t copied_bytes(const Program& program, Lane lane, int64_t micro_steps) {
  int64_t sum = 0;
  for (const SectionRange& section : program.sections) {
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(program.instructions, i);
      if (instruction.kind == Instruction::Kind::kCopy && instruction.lane == lane)
        sum += instruction.inputs[0].place.bytes * (section.repeats == Repeats::kStep ? 1 : micro_steps);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("threads with random delays compute what the graph says, whatever lives where") {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    const RandomJob job = random_job(seed, {.blocks = 1 + static_cast<int>(seed % 3)});
    const Outcome expected = expected_outcome(job.graph);
    RandomRun run(job, {.disk = seed % 8 == 0 ? Disk::kReal : Disk::kMemory, .lanes = delayed_threads(seed)});
    for (int step = 0; step < 2; ++step) REQUIRE(run.step() == expected);
  }
}

TEST_CASE("ten thousand schedules that the waits permit give the same bytes") {
  constexpr RandomGraphOptions kSmall = {.blocks = 2, .ops_per_block = 2, .weights = 1};
  for (int n = 0; n < 10; ++n) {
    const RandomJob job = random_job(nth_seed_with_all_lanes(n, kSmall), kSmall);
    const Outcome expected = expected_outcome(job.graph);
    RandomStream random(0, 0);
    RandomRun run(job, {.lanes = scripted_by(random)});
    for (uint64_t schedule = 0; schedule < 1000; ++schedule) {
      CAPTURE(n);
      CAPTURE(schedule);
      random = RandomStream(schedule, 9);
      REQUIRE(run.step() == expected);
    }
  }
}

TEST_CASE("nearly every missing wait that matters shows in some schedule") {
  int removed = 0, shown = 0;
  for (int n = 0; n < 4; ++n) {
    const RandomJob job = random_job(nth_seed_with_all_lanes(n));
    const Outcome expected = expected_outcome(job.graph);
    RandomStream choice(static_cast<uint64_t>(n), 13);
    for (int attempt = 0; attempt < 40; ++attempt) {
      RandomJob broken = job;
      Instruction& instruction =
          broken.program.instructions[choice.below(static_cast<uint32_t>(job.program.instructions.size()))];
      if (instruction.waits.empty()) continue;
      const auto wait = instruction.waits.begin() + choice.below(static_cast<uint32_t>(instruction.waits.size()));
      // Some waits of disk transfers only keep bytes beyond a value as they are.
      if (meets_disk(instruction) || meets_disk(nth(job.program.instructions, *wait))) continue;
      instruction.waits.erase(wait);
      if (verify(broken.graph, broken.program).empty()) continue;  // another wait implied it
      ++removed;
      RandomStream random(0, 0);
      RandomRun run(broken, {.lanes = scripted_by(random)});
      for (uint64_t schedule = 0; schedule < 200; ++schedule) {
        random = RandomStream(schedule, 9);
        if (run.step() == expected) continue;
        ++shown;
        break;
      }
    }
  }
  CHECK(removed >= 10);
  // The others only keep bytes beyond a value as they are, for a transfer that another wait implied, or need an order
  // that none of the schedules had.
  CHECK(shown >= removed * 3 / 4);
}

TEST_CASE("transfers that come late, out of order and in parts change no byte") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const RandomJob job = random_job(seed, kLarge);
    RandomRun run(job, {.faults = DiskFaults{.seed = seed, .delay = 0.5, .shorten = 0.5}});
    CHECK(run.step() == expected_outcome(job.graph));
  }
}

TEST_CASE("a transfer that fails ends the section with its error, and the executor does not run again") {
  const RandomJob job = random_job(nth_seed_with_all_lanes(1));
  for (const bool threads : {false, true}) {
    int failed = 0;
    for (int64_t fail_at = 0; fail_at < 24; ++fail_at) {
      const int error = std::array{EIO, ENOSPC, 0}[static_cast<size_t>(fail_at) % 3];  // 0: the file ends too early
      CAPTURE(threads);
      CAPTURE(fail_at);
      CAPTURE(error);
      RandomStream random(static_cast<uint64_t>(fail_at), 21);
      RandomRun run(job, {.faults = DiskFaults{.fail_at = fail_at, .error = error},
                          .lanes = threads ? delayed_threads(static_cast<uint64_t>(fail_at)) : scripted_by(random)});
      std::string message;
      try {
        run.load();
        run.train(nullptr);
      } catch (const MachineError& e) {
        message = e.what();
      }
      if (message.empty()) continue;  // there are fewer transfers than that
      ++failed;
      CHECK(message.find("got \"") != std::string::npos);
      CHECK_THROWS_AS(run.train(nullptr), MachineError);
    }
    CHECK(failed >= 10);
  }
}

TEST_CASE("a torn block is found by its checksum") {
  int torn = 0;
  for (int n = 0; n < 6; ++n) {
    const RandomJob job = random_job(nth_seed_with_all_lanes(n, kLarge), kLarge);
    RandomRun run(job, {.faults = DiskFaults{.seed = 1, .tear = 1}});
    try {
      const Outcome outcome = run.step();
      CHECK(outcome == expected_outcome(job.graph));
    } catch (const MachineError& e) {
      ++torn;
      CHECK(std::string(e.what()).find("sum") != std::string::npos);
    }
  }
  CHECK(torn > 0);
}

TEST_CASE("a step on all lanes allocates nothing" * doctest::skip(!AllocationCounter::works())) {
  for (const Disk disk : {Disk::kMemory, Disk::kReal}) {
    const RandomJob job = random_job(nth_seed_with_all_lanes(1));
    RandomRun run(job, {.disk = disk, .traced_micro_steps = 2});
    run.load();
    run.train(nullptr);
    const AllocationCounter counter;
    run.executor().start_trace();
    for (int step = 0; step < 5; ++step) run.train(nullptr);
    CHECK(counter.count() == 0);
  }
}

TEST_CASE("each lane's time, bytes and trace are measured, and the peaks are those of the plan") {
  const RandomJob job = random_job(nth_seed_with_all_lanes(2));
  DelayedDevice device(1, 50);
  bool own_time = false;
  SUBCASE("of threads") {}
  SUBCASE("of a device with events") { own_time = true; }
  CAPTURE(own_time);
  RandomRun run(job, {.lanes = delayed_threads(1), .traced_micro_steps = 2, .device = own_time ? &device : nullptr});
  run.load();
  run.executor().start_trace();
  run.train(nullptr);
  run.executor().stop_trace();
  const LaneProfile& profile = run.executor().lanes();
  for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
    CAPTURE(tier);
    CHECK(align_up(run.executor().measured_peak_bytes(static_cast<Tier>(tier)), 256) ==
          align_up(job.program.arena_bytes[tier], 256));
  }
  for (int index = 0; index < kLanes; ++index) {
    const Lane lane = static_cast<Lane>(index);
    CAPTURE(name_of(lane));
    CHECK(profile.totals(lane).bytes == copied_bytes(job.program, lane, 2));
    double sum = 0;
    for (size_t i = 0; i < job.program.instructions.size(); ++i)
      if (job.program.instructions[i].lane == lane) sum += profile.instructions()[i].seconds;
    CHECK(profile.totals(lane).busy_seconds == doctest::Approx(sum));
    size_t expected_events = 0;
    for (const SectionRange& section : job.program.sections) {
      for (int32_t i = section.begin; i < section.end; ++i) {
        if (nth(job.program.instructions, i).lane == lane) expected_events += section.repeats == Repeats::kStep ? 1 : 2;
      }
    }
    const std::span<const LaneEvent> events = profile.trace(lane);
    REQUIRE(events.size() == expected_events);
    for (size_t i = 0; i < events.size(); ++i) {
      CHECK(events[i].start <= events[i].finish);
      if (i > 0) CHECK(events[i - 1].finish <= events[i].finish);
    }
  }
  CHECK(profile.stall_seconds() > 0);
}

TEST_CASE("the content of a large value on disk or in a file passes through the store in pieces") {
  Graph graph{.name = "store"};
  Builder b(graph);
  const ValueType type{DType::kF32, {5, 1'000'003}};
  const ValueId on_disk = b.input("on disk", type, ValueKind::kOptimizerState);
  const ValueId in_file = b.input("in a file", type, ValueKind::kFrozenWeight);
  const int64_t blocks = align_up(type.bytes(), kDiskAlignment);
  Program program{
      .homes = {{on_disk, {Tier::kDisk, kDiskAlignment, type.bytes()}}, {in_file, {Tier::kFiles, 0, type.bytes()}}},
      .arena_bytes = {0, 0, kDiskAlignment + blocks, type.bytes()}};
  std::vector<float> content(static_cast<size_t>(type.shape.elems()));
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<float>(i);

  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "model";
  std::ofstream(path, std::ios::binary)
      .write("odd", 3)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(type.bytes()));
  Scratch scratch({.folders = {folder.path()}, .bytes = kDiskAlignment + blocks});
  ThreadPool pool(1);
  for (const bool direct : {false, true}) {
    CAPTURE(direct);
    Executor executor(
        graph, program, pool,
        {.tiers = {.scratch = &scratch, .files = {path}, .in_files = {{in_file, {0, 3}}}, .direct_files = direct}});
    ValueStore& values = executor.values();
    CHECK(values.is_in_files(in_file));
    CHECK_FALSE(values.is_in_files(on_disk));
    if (direct) {
      const auto writer = values.writer(on_disk);
      for (size_t first = 0, count = 0; first < content.size(); first += count) {
        count = std::min(content.size() - first, count * 3 + 1);
        writer->append(content.data() + first, static_cast<int64_t>(count));
      }
    } else {
      values.write(on_disk, [&](const TensorView& piece, int64_t first) {
        std::copy_n(content.begin() + first, piece.elems(), piece.as<float>());
      });
    }
    for (const ValueId id : {on_disk, in_file}) {
      int64_t next = 0, different = 0;
      values.read(id, [&](const TensorView& piece, int64_t first) {
        CHECK(first == next);
        next += piece.elems();
        different += !std::equal(piece.as<float>(), piece.as<float>() + piece.elems(), content.begin() + first);
      });
      CHECK(next == type.shape.elems());
      CHECK(different == 0);
    }
  }
}

TEST_CASE("copies move the rows of the stream, and all of what stays") {
  Graph graph{.name = "rows", .axes = {{"tokens", 8}}};
  Builder b(graph);
  const ValueType type{DType::kU8, {8, 3}, kTokenAxis};
  const ValueId batch = b.input("batch", type, ValueKind::kBatch);
  const ValueId cache = b.input("cache", type, ValueKind::kCache);
  const auto at = [&](ValueId id, Tier tier, int64_t offset) { return Operand{id, {tier, offset, type.bytes()}}; };
  Program program{.homes = {at(batch, Tier::kDevice, 0), at(cache, Tier::kHost, 64)}, .arena_bytes = {64, 128, 0, 0}};
  program.instructions = {{.kind = Instruction::Kind::kCopy,
                           .lane = Lane::kDeviceToHost,
                           .inputs = {at(batch, Tier::kDevice, 0)},
                           .outputs = {at(batch, Tier::kHost, 0)}},
                          {.kind = Instruction::Kind::kCopy,
                           .lane = Lane::kHostToDevice,
                           .inputs = {at(cache, Tier::kHost, 64)},
                           .outputs = {at(cache, Tier::kDevice, 32)}}};
  program.sections = {{Repeats::kMicroBatch, 0, 2}};
  ThreadPool pool(1);
  Executor executor(graph, program, pool);
  executor.set_rows(kTokenAxis, 5);
  executor.run(0);
  CHECK(executor.lanes().totals(Lane::kDeviceToHost).bytes == 5 * 3);
  CHECK(executor.lanes().totals(Lane::kHostToDevice).bytes == 8 * 3);
  executor.set_rows(kTokenAxis, 0);
  executor.run(0);
  CHECK(executor.lanes().totals(Lane::kDeviceToHost).bytes == 5 * 3);
}
