#include "runtime/executor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "backend/testing/delayed_device.h"
#include "base/error.h"
#include "base/math.h"
#include "io/testing/faulty_backend.h"
#include "io/testing/memory_disk.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"
#include "plan/verify.h"
#include "runtime/lane_threads.h"
#include "runtime/testing/scripted_lanes.h"
#include "tests/support/count_allocations.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// --- A random graph with a plan that uses every tier, and the files that it reads ------------------------------------

// Values of several blocks of the disk.
constexpr RandomGraphOptions kLarge = {.most_bytes = 30000};

struct Job {
  Graph graph;
  Program program;
  std::vector<ValueId> batch, persistent;
};

Job random_job(uint64_t seed, const RandomGraphOptions& options = {}) {
  RandomStream random(seed, 5);
  Job job{.graph = random_graph(seed, options)};
  job.program = random_plan(job.graph, random).program;
  for (const Operand& home : job.program.homes)
    (job.graph.is_persistent(home.value) ? job.persistent : job.batch).push_back(home.value);
  REQUIRE(verify(job.graph, job.program).empty());
  return job;
}

// A program with copies on every lane that copies can take, and operations on both lanes for these.
bool uses_all_lanes(const Program& program) {
  std::array<bool, kLanes> used{};
  for (const Instruction& i : program.instructions) used[static_cast<size_t>(i.lane)] = true;
  return std::count(used.begin(), used.end(), true) == kLanes - 1;
}

uint64_t nth_seed_with_all_lanes(int n, const RandomGraphOptions& options = {}) {
  for (uint64_t seed = 0;; ++seed) {
    if (uses_all_lanes(random_job(seed, options).program) && n-- == 0) return seed;
  }
}

enum class Disk { kMemory, kReal };

// An executor of a job, with all that it borrows.
class Run {
 public:
  struct Options {
    Disk disk = Disk::kMemory;
    std::optional<DiskFaults> faults;
    MakeLaneRunner lanes = make_lane_threads;
    int64_t traced_micro_steps = 0;
    Device* device = nullptr;
  };

  Run(const Job& job, const Options& options) : job_(job) {
    TierOptions tiers{.device = options.device};
    if (const int64_t bytes = job.program.arena_bytes[static_cast<size_t>(Tier::kDisk)]; bytes > 0) {
      scratch_.emplace(ScratchOptions{.folders = {folder_.path()},
                                      .bytes = align_up(bytes, kDiskAlignment),
                                      .checksums = options.faults.has_value()});
      tiers.scratch = &*scratch_;
    }
    write_model_file(tiers);
    if (options.disk == Disk::kMemory) tiers.disk_backend = disk_.backend();
    if (options.faults) tiers.disk_backend = with_faults(tiers.disk_backend, *options.faults);
    executor_.emplace(
        job.graph, job.program, pool_,
        ExecutorOptions{.tiers = tiers, .traced_micro_steps = options.traced_micro_steps, .lanes = options.lanes});
  }

  // One step of two micro-steps from the initial contents.
  Outcome step() {
    load();
    Outcome outcome;
    train(&outcome);
    for (const ValueId id : job_.persistent) {
      executor_->values().read(id,
                               [&](const TensorView& piece, int64_t) { outcome[id] = outcome_of(bytes_of(piece)); });
    }
    return outcome;
  }
  void load() {
    for (const ValueId id : job_.persistent) {
      if (executor_->values().is_in_files(id)) continue;
      executor_->values().write(id, [&](const TensorView& piece, int64_t) { fill_initial(id, 0, bytes_of(piece)); });
    }
  }
  void train(Outcome* outcome) {
    for (int micro_step = 0; micro_step < 2; ++micro_step) {
      for (const ValueId id : job_.batch) fill_initial(id, micro_step, bytes_of(executor_->home(id)));
      run(Phase::kForward, outcome);
      run(Phase::kBackward, outcome);
    }
    run(Phase::kUpdate, outcome);
  }

  Executor& executor() { return *executor_; }

 private:
  static std::span<uint8_t> bytes_of(const TensorView& view) {
    return {view.as<uint8_t>(), static_cast<size_t>(view.bytes())};
  }

  void run(Phase phase, Outcome* outcome) {
    executor_->run(phase);
    if (!outcome) return;
    for (size_t i = 0; i < job_.graph.results.size(); ++i) {
      const ValueId id = job_.graph.results[i];
      if (job_.graph.op(job_.graph.value(id).producer).phase == phase)
        (*outcome)[id] = outcome_of(bytes_of(executor_->result(i)));
    }
  }

  // The values of Tier::kFiles, at odd offsets.
  void write_model_file(TierOptions& tiers) {
    std::string content = "x";
    for (const Operand& home : job_.program.homes) {
      if (home.place.tier != Tier::kFiles) continue;
      tiers.in_files[home.value] = {0, std::ssize(content)};
      std::vector<uint8_t> bytes(static_cast<size_t>(home.place.bytes));
      fill_initial(home.value, 0, bytes);
      content.append(bytes.begin(), bytes.end());
    }
    tiers.files = {folder_.path() / "model"};
    std::ofstream(tiers.files[0], std::ios::binary) << content;
  }

  const Job& job_;
  const TemporaryFolder folder_;
  MemoryDisk disk_;
  std::optional<Scratch> scratch_;
  ThreadPool pool_{1};
  std::optional<Executor> executor_;
};

// Sleeps for up to 50 us before some of the instructions; another pattern for every seed.
MakeLaneRunner delayed_threads(uint64_t seed) {
  return [seed](LoadedProgram& loaded, LaneProfile& profile) {
    return std::make_unique<LaneThreads>(loaded, profile, [seed](int32_t i) {
      const uint32_t bits = philox(seed, 3, static_cast<uint64_t>(i))[0];
      if (bits % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds((bits >> 8) % 50));
    });
  };
}

int64_t copied_bytes(const Program& program, Lane lane, int64_t micro_steps) {
  int64_t sum = 0;
  for (const Section& section : program.sections) {
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
      if (instruction.kind == Instruction::Kind::kCopy && instruction.lane == lane)
        sum += instruction.inputs[0].place.bytes * (section.phase == Phase::kUpdate ? 1 : micro_steps);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("threads with random delays compute what the graph says, whatever lives where") {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    const Job job = random_job(seed, {.blocks = 1 + static_cast<int>(seed % 3)});
    const Outcome expected = expected_outcome(job.graph);
    Run run(job, {.disk = seed % 8 == 0 ? Disk::kReal : Disk::kMemory, .lanes = delayed_threads(seed)});
    for (int step = 0; step < 2; ++step) REQUIRE(run.step() == expected);
  }
}

TEST_CASE("a device that works on its own time, in memory of its own, computes what the graph says") {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    const Job job = random_job(seed, seed % 4 == 0 ? kLarge : RandomGraphOptions{});
    const Outcome expected = expected_outcome(job.graph);
    DelayedDevice device(seed, 60);
    Run run(job, {.lanes = delayed_threads(seed), .device = &device});
    for (int step = 0; step < 2; ++step) REQUIRE(run.step() == expected);
  }
}

TEST_CASE("an event that is not waited for shows") {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Job job = random_job(nth_seed_with_all_lanes(static_cast<int>(seed)));
    const Outcome expected = expected_outcome(job.graph);
    for (Instruction& instruction : job.program.instructions) {
      if (instruction.lane == Lane::kCompute) instruction.waits.clear();
    }
    DelayedDevice device(seed, 200);
    Run run(job, {.device = &device});
    wrong += run.step() != expected;
  }
  CHECK(wrong > 0);
}

TEST_CASE("a transfer that fails beside a device at work ends the section with its error") {
  const Job job = random_job(nth_seed_with_all_lanes(0));
  int failed = 0;
  for (int64_t fail_at = 0; fail_at < 12; ++fail_at) {
    DelayedDevice device(static_cast<uint64_t>(fail_at), 50);
    Run run(job, {.faults = DiskFaults{.fail_at = fail_at, .error = EIO}, .device = &device});
    try {
      run.load();
      run.train(nullptr);
    } catch (const MachineError&) {
      ++failed;
      CHECK_THROWS_AS(run.train(nullptr), MachineError);
    }
  }
  CHECK(failed >= 5);
}

TEST_CASE("a device that breaks at any of its work ends the section with its error, and all of it goes") {
  const Job job = random_job(nth_seed_with_all_lanes(0));
  int failed = 0;
  for (int64_t fail_at = 0; fail_at < 400; fail_at += 7) {
    CAPTURE(fail_at);
    DelayedDevice device(static_cast<uint64_t>(fail_at), 20, fail_at);
    const auto train = [&] {
      Run run(job, {.lanes = delayed_threads(static_cast<uint64_t>(fail_at)), .device = &device});
      run.load();
      run.train(nullptr);
    };
    try {
      train();
    } catch (const MachineError& error) {
      ++failed;
      CHECK(std::string(error.what()).find("on purpose") != std::string::npos);
    }
  }
  CHECK(failed >= 10);
}

TEST_CASE("ten thousand schedules that the waits permit give the same bytes") {
  constexpr RandomGraphOptions kSmall = {.blocks = 2, .ops_per_block = 2, .weights = 1};
  for (int n = 0; n < 10; ++n) {
    const Job job = random_job(nth_seed_with_all_lanes(n, kSmall), kSmall);
    const Outcome expected = expected_outcome(job.graph);
    RandomStream random(0, 0);
    Run run(job, {.lanes = scripted_by(random)});
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
    const Job job = random_job(nth_seed_with_all_lanes(n));
    const Outcome expected = expected_outcome(job.graph);
    RandomStream choice(static_cast<uint64_t>(n), 13);
    for (int attempt = 0; attempt < 40; ++attempt) {
      Job broken = job;
      Instruction& instruction =
          broken.program.instructions[choice.below(static_cast<uint32_t>(job.program.instructions.size()))];
      if (instruction.waits.empty()) continue;
      const auto wait = instruction.waits.begin() + choice.below(static_cast<uint32_t>(instruction.waits.size()));
      // Some waits of disk transfers only keep bytes beyond a value as they are.
      if (meets_disk(instruction) || meets_disk(job.program.instructions[static_cast<size_t>(*wait)])) continue;
      instruction.waits.erase(wait);
      if (verify(broken.graph, broken.program).empty()) continue;  // another wait implied it
      ++removed;
      RandomStream random(0, 0);
      Run run(broken, {.lanes = scripted_by(random)});
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
    const Job job = random_job(seed, kLarge);
    Run run(job, {.faults = DiskFaults{.seed = seed, .delay = 0.5, .shorten = 0.5}});
    CHECK(run.step() == expected_outcome(job.graph));
  }
}

TEST_CASE("a transfer that fails ends the section with its error, and the executor does not run again") {
  const Job job = random_job(nth_seed_with_all_lanes(0));
  for (const bool threads : {false, true}) {
    int failed = 0;
    for (int64_t fail_at = 0; fail_at < 24; ++fail_at) {
      const int error = std::array{EIO, ENOSPC, 0}[static_cast<size_t>(fail_at) % 3];  // 0: the file ends too early
      CAPTURE(threads);
      CAPTURE(fail_at);
      CAPTURE(error);
      RandomStream random(static_cast<uint64_t>(fail_at), 21);
      Run run(job, {.faults = DiskFaults{.fail_at = fail_at, .error = error},
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
    const Job job = random_job(nth_seed_with_all_lanes(n, kLarge), kLarge);
    Run run(job, {.faults = DiskFaults{.seed = 1, .tear = 1}});
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

TEST_CASE("a step on all lanes allocates nothing") {
  if (!AllocationCounter::works()) return;
  for (const Disk disk : {Disk::kMemory, Disk::kReal}) {
    const Job job = random_job(nth_seed_with_all_lanes(1));
    Run run(job, {.disk = disk, .traced_micro_steps = 2});
    run.load();
    run.train(nullptr);
    const AllocationCounter counter;
    run.executor().start_trace();
    for (int step = 0; step < 5; ++step) run.train(nullptr);
    CHECK(counter.count() == 0);
  }
}

TEST_CASE("each lane's time, bytes and trace are measured, and the peaks are those of the plan") {
  const Job job = random_job(nth_seed_with_all_lanes(2));
  DelayedDevice device(1, 50);
  bool own_time = false;
  SUBCASE("of threads") {}
  SUBCASE("of a device with events") { own_time = true; }
  CAPTURE(own_time);
  Run run(job, {.lanes = delayed_threads(1), .traced_micro_steps = 2, .device = own_time ? &device : nullptr});
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
    for (const Section& section : job.program.sections) {
      for (int32_t i = section.begin; i < section.end; ++i) {
        if (job.program.instructions[static_cast<size_t>(i)].lane == lane)
          expected_events += section.phase == Phase::kUpdate ? 1 : 2;
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
    values.write(on_disk, [&](const TensorView& piece, int64_t first) {
      std::copy_n(content.begin() + first, piece.elems(), piece.as<float>());
    });
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
  Graph graph{.name = "rows", .tokens = 8};
  Builder b(graph);
  const ValueType type{DType::kU8, {8, 3}, true};
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
  program.sections = {{Phase::kForward, 0, 2}};
  ThreadPool pool(1);
  Executor executor(graph, program, pool);
  executor.set_tokens(5);
  executor.run(Phase::kForward);
  CHECK(executor.lanes().totals(Lane::kDeviceToHost).bytes == 5 * 3);
  CHECK(executor.lanes().totals(Lane::kHostToDevice).bytes == 8 * 3);
  executor.set_tokens(0);
  executor.run(Phase::kForward);
  CHECK(executor.lanes().totals(Lane::kDeviceToHost).bytes == 5 * 3);
}
