// Tests copies that move nothing where no token has reached an expert.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "backend/testing/delayed_device.h"
#include "plan/planner.h"
#include "tests/support/random_run.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr RandomGraphOptions kWithExperts = {.ops_per_block = 3, .max_bytes = 9000, .experts = 6};

// Returns a job whose weights move over links that are slower than its computation, about half of those on the disk in
// the user's files.
RandomJob job_with_guards(uint64_t seed) {
  RandomStream random(seed, 29);
  Graph graph = random_graph(seed, kWithExperts);
  Machine machine;
  machine.link_bytes_per_second.fill(1e5);
  OwnFiles own_files;
  for (size_t i = 0; i < graph.values.size(); ++i) own_files.held.push_back(random.below(2) == 0);
  const Plan plan = plan_for(graph, machine, random_choices(graph, random), own_files);
  return job_of(std::move(graph), plan);
}

// Returns the bytes of all copies, in a step of two micro-batches.
int64_t copied_bytes(const Program& program) {
  int64_t sum = 0;
  for (const SectionRange& section : program.sections) {
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(program.instructions, i);
      if (instruction.kind == Instruction::Kind::kCopy)
        sum += runs_per_step(section.repeats, 2) * instruction.inputs[0].place.bytes;
    }
  }
  return sum;
}

// Returns the bytes of copies with a guard, in a micro-batch.
int64_t guarded_bytes(const Program& program) {
  int64_t sum = 0;
  for (const Instruction& instruction : program.instructions)
    if (instruction.guard != kNone) sum += instruction.inputs[0].place.bytes;
  return sum;
}

// Returns the bytes that copies have moved.
int64_t copied_bytes(const Executor& executor) {
  int64_t sum = 0;
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kDiskRead, Lane::kDiskWrite})
    sum += executor.lanes().totals(lane).bytes;
  return sum;
}

}  // namespace

TEST_CASE("experts that nothing has reached are not loaded, and nothing else changes") {
  int64_t guarded = 0, left_out = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    const RandomJob job = job_with_guards(seed);
    const Outcome expected = expected_outcome(job.graph);
    RandomRun run(job, {.disk = seed % 8 == 0 ? Disk::kReal : Disk::kMemory, .lanes = delayed_threads(seed)});
    DelayedDevice device(seed, 20);
    RandomRun apart(job, {.lanes = delayed_threads(seed), .device = &device});
    for (int step = 0; step < 2; ++step) {
      REQUIRE(run.step() == expected);
      REQUIRE(apart.step() == expected);
    }
    const int64_t bytes = copied_bytes(run.executor());
    CHECK(copied_bytes(apart.executor()) == bytes);
    left_out += 2 * copied_bytes(job.program) - bytes;
    guarded += 4 * guarded_bytes(job.program);  // two steps of two micro-batches
  }
  // Half of the experts have rows.
  CHECK(left_out > guarded / 3);
  CHECK(left_out < 2 * guarded / 3);
}
