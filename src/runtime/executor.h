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
};

class Executor {
 public:
  // Starts the lanes' threads. All are borrowed and must outlive the executor; the memory may be that of other
  // executors, too, of which one runs at a time. Throws as LoadedProgram does.
  // REQUIRES: verify(graph, program) is empty, and the memory was made for the program.
  Executor(const Graph& graph, const Program& program, Memory& memory, const ExecutorOptions& options = {});
  // The same with memory of its own. Throws as Memory does, too.
  Executor(const Graph& graph, const Program& program, ThreadPool& pool, const ExecutorOptions& options = {});

  // Host memory in which a batch value is filled, between sections, with all tokens; to be asked for again each time,
  // since what was handed out is sent where the device has memory of its own. A value that lives in memory which
  // the host shares can be read and written there, too, whatever its kind.
  [[nodiscard]] TensorView home(ValueId id) const;
  // Host memory with Graph::results[index]; valid from the end of its section until the next one begins.
  [[nodiscard]] TensorView result(size_t index) const;
  // The contents of all persistent values, wherever they live, between sections.
  [[nodiscard]] ValueStore& values() { return *values_; }

  [[nodiscard]] const Device& device() const { return loaded_.device(); }
  // The number of rows that values which follow the axis have in the next runs; at first it is the axis's capacity.
  // REQUIRES: 0 <= rows <= that capacity.
  void set_rows(AxisId axis, int64_t rows) { loaded_.set_rows(axis, rows); }
  // Returns when all lanes have finished the section. Throws MachineError where a transfer fails, when nothing is in
  // flight any more; what the tiers hold is lost then, and every later call throws the same.
  void run(SectionId section);

  // Notes the times of every instruction from here on, for one step.
  void start_trace() { profile_.start_trace(); }
  void stop_trace() { profile_.stop_trace(); }
  [[nodiscard]] const LaneProfile& lanes() const { return profile_; }

  // The end of the highest byte that any executed instruction or home has used.
  [[nodiscard]] int64_t measured_peak_bytes(Tier tier) const { return profile_.peak_bytes(tier); }
  // The same since this was last asked for.
  [[nodiscard]] int64_t take_recent_peak_bytes(Tier tier) { return profile_.take_recent_bytes(tier); }
  [[nodiscard]] const std::vector<InstructionProfile>& profile() const { return profile_.instructions(); }

 private:
  Executor(const Graph& graph, const Program& program, std::unique_ptr<Memory> own, const ExecutorOptions& options);

  std::unique_ptr<Memory> own_memory_;
  LoadedProgram loaded_;
  LaneProfile profile_;
  std::unique_ptr<Mirror> mirror_;  // where the host does not share the device's memory
  std::unique_ptr<ValueStore> values_;
  std::exception_ptr error_;           // of the first section that failed
  std::unique_ptr<LaneRunner> lanes_;  // last: its threads stop before what they work on goes
};

}  // namespace spillway
