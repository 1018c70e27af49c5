// For tests of executors: random graphs with plans that use every tier, run step by step with all that they borrow.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "io/testing/faulty_backend.h"
#include "io/testing/memory_disk.h"
#include "plan/planner.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"
#include "plan/verify.h"
#include "runtime/executor.h"
#include "runtime/lane_threads.h"

namespace spillway::testing {

struct RandomJob {
  Graph graph;
  Program program;
  std::vector<ValueId> batch, persistent;  // with homes
};

// A graph by a plan of the test's choice; verified.
inline RandomJob job_of(Graph graph, const Plan& plan) {
  RandomJob job{.graph = std::move(graph), .program = plan.program};
  for (const Operand& home : job.program.homes)
    (job.graph.is_persistent(home.value) ? job.persistent : job.batch).push_back(home.value);
  SPILLWAY_CHECK(verify(job.graph, job.program).empty(), "a plan that the verifier turns down");
  return job;
}

// A random graph with a plan that makes every choice at random.
inline RandomJob random_job(uint64_t seed, const RandomGraphOptions& options = {}) {
  RandomStream random(seed, 5);
  Graph graph = random_graph(seed, options);
  const Plan plan = random_plan(graph, random);
  return job_of(std::move(graph), plan);
}

// The n-th seed whose job has copies on every lane that copies can take, and operations on both lanes for these.
inline uint64_t nth_seed_with_all_lanes(int n, const RandomGraphOptions& options = {}) {
  for (uint64_t seed = 0;; ++seed) {
    std::array<bool, kLanes> used{};
    for (const Instruction& i : random_job(seed, options).program.instructions) nth(used, i.lane) = true;
    if (std::count(used.begin(), used.end(), true) == kLanes - 1 && n-- == 0) return seed;
  }
}

enum class Disk { kMemory, kReal };

// An executor of a job, which outlives it.
class RandomRun {
 public:
  struct Options {
    Disk disk = Disk::kMemory;
    std::optional<DiskFaults> faults;
    MakeLaneRunner lanes = make_lane_threads;
    int64_t traced_micro_steps = 0;
    Device* device = nullptr;
  };

  RandomRun(const RandomJob& job, const Options& options) : job_(job) {
    TierOptions tiers{.device = options.device};
    if (const int64_t bytes = nth(job.program.arena_bytes, Tier::kDisk); bytes > 0) {
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

  // One step of two micro-batches from the initial contents, to be compared with expected_outcome().
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
  // `outcome` gets the results; null: nobody wants them.
  void train(Outcome* outcome, int micro_steps = 2) {
    for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
      for (const ValueId id : job_.batch) fill_initial(id, micro_step, bytes_of(executor_->home(id)));
      run(Repeats::kMicroBatch, outcome);
    }
    run(Repeats::kStep, outcome);
  }

  [[nodiscard]] Executor& executor() { return *executor_; }

 private:
  static std::span<uint8_t> bytes_of(const TensorView& view) {
    return {view.as<uint8_t>(), static_cast<size_t>(view.bytes())};
  }

  void run(Repeats repeats, Outcome* outcome) {
    for (size_t i = 0; i < job_.graph.sections.size(); ++i) {
      if (job_.graph.sections[i].repeats == repeats) run(static_cast<SectionId>(i), outcome);
    }
  }

  void run(SectionId section, Outcome* outcome) {
    executor_->run(section);
    if (!outcome) return;
    for (size_t i = 0; i < job_.graph.results.size(); ++i) {
      const ValueId id = job_.graph.results[i];
      if (job_.graph.op(job_.graph.value(id).producer).section == section)
        (*outcome)[id] = outcome_of(bytes_of(executor_->result(i)));
    }
  }

  // The values of Tier::kFiles, at odd offsets.
  void write_model_file(TierOptions& tiers) const {
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

  const RandomJob& job_;
  const TemporaryFolder folder_;
  MemoryDisk disk_;
  std::optional<Scratch> scratch_;
  ThreadPool pool_{1};
  std::optional<Executor> executor_;
};

// Threads that sleep for up to 50 us before some of the instructions; another pattern for every seed.
inline MakeLaneRunner delayed_threads(uint64_t seed) {
  return [seed](LoadedProgram& loaded, LaneProfile& profile) {
    return std::make_unique<LaneThreads>(loaded, profile, [seed](int32_t i) {
      const uint32_t bits = philox(seed, 3, static_cast<uint64_t>(i))[0];
      if (bits % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds((bits >> 8) % 50));
    });
  };
}

}  // namespace spillway::testing
