// A thread for every lane that a program uses, started once; the compute lane is on the caller's thread.
//
// Each lane publishes its progress: all its instructions below `done` have finished. A thread that waits for an
// instruction spins for a moment, then says which one it sleeps for, so that a lane that finishes hundreds of
// instructions does not wake others in vain.
//
// For a lane whose work a device does on its own time (LoadedProgram::is_asynchronous), an instruction counts as
// finished for other threads when it is in the lane's queue with an event behind it. A lane that waits for it then
// makes its own queue wait for the event, or, if it works at once, waits for the event itself. The section ends when
// the queues are empty; only then are their times known, from the events.
//
// Sections of kernels alone are captured after some runs and replayed (captured_sections.h).
//
// The disk lanes start transfers ahead, as far as their waits are met, so that the disk always has work; they finish
// them in order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/index.h"
#include "runtime/captured_sections.h"
#include "runtime/lane_runner.h"

namespace spillway {

class LaneThreads final : public LaneRunner {
 public:
  // Called on a lane's thread before it starts an instruction; for tests.
  using Hook = std::function<void(int32_t instruction)>;

  LaneThreads(LoadedProgram& loaded, LaneProfile& profile, Hook before_each = {});
  ~LaneThreads() override;

  void run(const SectionRange& section) override;

 private:
  struct alignas(64) LaneState {
    Lane lane = Lane::kCompute;
    std::vector<int32_t> instructions;
    std::span<const int32_t> todo;       // those of the section; written before `rounds` rises
    std::atomic<uint32_t> rounds{0};     // sections that the lane has been told to run
    std::atomic<int32_t> done{0};        // all its instructions below this have finished
    std::atomic<int32_t> parked_on{-1};  // the instruction of another lane that its thread sleeps for; -1: none
    std::thread thread;
  };

  [[nodiscard]] LaneState& state_of(int32_t instruction) { return nth(lanes_, nth(lane_of_, instruction)); }
  [[nodiscard]] const Instruction& at(int32_t i) const { return nth(loaded_.program().instructions, i); }

  void stop();
  void run_thread(LaneState& self);
  void run_lane(LaneState& self);
  void run_in_order(LaneState& self);
  void run_ahead(LaneState& self);
  void put_in_queue(LaneState& self, int32_t instruction);
  void note_time(LaneState& self, int32_t instruction, double start, double finish);
  // Returns true if all that the instruction waits for has finished, or, for a lane with a queue, is at least in a
  // queue.
  [[nodiscard]] bool is_ready(const LaneState& self, int32_t instruction);
  // Returns true when it has; false if another lane has failed instead.
  [[nodiscard]] bool await(LaneState& self, int32_t instruction);
  [[nodiscard]] bool await_one(LaneState& self, int32_t other);
  void publish(LaneState& self, int32_t instruction);
  // Returns the event behind an instruction of an asynchronous lane that is in its queue.
  [[nodiscard]] DeviceEvent& event_of(int32_t i) { return *nth(events_, i); }
  [[nodiscard]] bool is_asynchronous(int32_t i) const { return nth(events_, i) != nullptr; }
  void begin_queues();
  void finish_queues();
  void record_times(const SectionRange& section);
  void fail(std::exception_ptr error);

  LoadedProgram& loaded_;
  LaneProfile& profile_;
  Hook before_each_;
  std::vector<Lane> lane_of_;  // by instruction
  CapturedSections captured_;
  std::array<LaneState, kLanes> lanes_;
  std::vector<LaneState*> threads_;                   // the lanes with a thread
  std::vector<std::unique_ptr<DeviceEvent>> events_;  // by instruction; null on a lane that is not asynchronous
  std::unique_ptr<DeviceEvent> begin_;                // of the section, on the compute lane's queue
  double begin_seconds_ = 0;
  std::vector<double> finish_seconds_;  // by instruction of the section; only where a lane is asynchronous
  std::atomic<int32_t> running_{0};     // threads that are still in the section
  std::atomic<bool> stop_{false}, failed_{false}, has_error_{false};
  std::exception_ptr error_;  // the first; written by the thread that sets has_error_
};

}  // namespace spillway
