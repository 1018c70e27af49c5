// Runs a Program. It decides nothing: operands are resolved to addresses once (loaded_program.h), and a LaneRunner
// executes each section's instructions as soon as their lane and their waits permit.
//
// Belongs to one thread. After construction it allocates nothing while a section runs.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "runtime/lane_profile.h"
#include "runtime/lane_runner.h"
#include "runtime/loaded_program.h"
#include "runtime/mirror.h"
#include "runtime/value_store.h"

namespace spillway {

struct ExecutorOptions {
  TierOptions tiers;               // of an executor with memory of its own
  int64_t traced_micro_steps = 0;  // for start_trace: how many a step has; 0: nothing will be traced
  MakeLaneRunner lanes = make_lane_threads;
  Peers* peers = nullptr;         // the ranks of the job, borrowed; null for a job of one
  Peers* device_peers = nullptr;  // the same for a device with memory of its own; null: `peers` take it, too
};

class Executor {
 public:
  // Starts the lanes' threads. Borrows all arguments, which must outlive the executor; other executors may share the
  // memory if only one runs at a time. Throws as LoadedProgram does.
  // REQUIRES: verify(graph, program) is empty, and the memory was made for the program.
  Executor(const Graph& graph, const Program& program, Memory& memory, const ExecutorOptions& options = {});
  // Makes an executor with memory of its own. Throws as Memory does, too.
  Executor(const Graph& graph, const Program& program, ThreadPool& pool, const ExecutorOptions& options = {});

  // Returns the host memory in which a batch value is filled, between sections, with all tokens. It must be requested
  // again each time, since memory that was handed out is sent to a device with memory of its own. A value that lives in
  // memory shared with the host can be read and written there, too, whatever its kind.
  [[nodiscard]] TensorView home(ValueId id) const;
  // Returns host memory with Graph::results[index]; valid from the end of its section until the next one begins.
  [[nodiscard]] TensorView result(size_t index) const;
  // Returns the contents of all persistent values, wherever they live, for use between sections.
  [[nodiscard]] ValueStore& values() { return *values_; }

  [[nodiscard]] const Device& device() const { return loaded_.device(); }
  // Sets the number of rows that values which follow the axis have in the next runs; at first it is the axis's
  // capacity. REQUIRES: 0 <= rows <= that capacity.
  void set_rows(AxisId axis, int64_t rows) { loaded_.set_rows(axis, rows); }
  // Sets how many ranks, from the first, add to the sums of a micro-batch's gradients in the next runs, by the axis of
  // its tokens; at first all do. The others run the same sections, with nothing or anything. REQUIRES: the same on all
  // ranks, 0 <= contributors <= peers->size().
  void set_contributors(int contributors, AxisId tokens = kTokenAxis) {
    loaded_.set_contributors(contributors, tokens);
  }
  // Runs a section and returns when all lanes have finished it. Throws MachineError if a transfer or a collective
  // fails, once nothing is in flight any more; the contents of the tiers are lost then, and every later call throws the
  // same.
  void run(SectionId section);

  // Records the times of every instruction from here on, for one step.
  void start_trace() { profile_.start_trace(); }
  void stop_trace() { profile_.stop_trace(); }
  [[nodiscard]] const LaneProfile& lanes() const { return profile_; }

  // Returns the end of the highest byte that any executed instruction or home has used.
  [[nodiscard]] int64_t measured_peak_bytes(Tier tier) const { return profile_.peak_bytes(tier); }
  // Returns the same for the time since the last call.
  [[nodiscard]] int64_t take_recent_peak_bytes(Tier tier) { return profile_.take_recent_bytes(tier); }
  [[nodiscard]] const std::vector<InstructionProfile>& profile() const { return profile_.instructions(); }

 private:
  Executor(const Graph& graph, const Program& program, std::unique_ptr<Memory> own, const ExecutorOptions& options);

  std::unique_ptr<Memory> own_memory_;
  LoadedProgram loaded_;
  LaneProfile profile_;
  std::unique_ptr<Mirror> mirror_;  // set if the host does not share the device's memory
  std::unique_ptr<ValueStore> values_;
  std::exception_ptr error_;           // of the first section that failed
  std::unique_ptr<LaneRunner> lanes_;  // last: its threads must stop before the data that they work on goes
};

}  // namespace spillway
