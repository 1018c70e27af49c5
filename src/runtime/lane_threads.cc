#include "runtime/lane_threads.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/cpu_relax.h"
#include "base/error.h"
#include "base/index.h"
#include "runtime/computer.h"

namespace spillway {
namespace {

// The spins bridge the time that a copy of a few pages takes. More would take a core from computing threads.
constexpr int kSpins = 200;

// The transfers of a disk lane that are in flight at once. A DiskQueue cuts each into blocks, of which it has enough in
// flight; this many cover the gaps between transfers, small ones too.
constexpr size_t kAhead = 8;

// Empties the queue after an error; if the queue has failed too, it is empty already.
void drain(DiskQueue& queue) {
  try {
    queue.drain();
  } catch (const MachineError&) {
  }
}

}  // namespace

std::unique_ptr<LaneRunner> make_lane_threads(LoadedProgram& loaded, LaneProfile& profile) {
  return std::make_unique<LaneThreads>(loaded, profile);
}

LaneThreads::LaneThreads(LoadedProgram& loaded, LaneProfile& profile, Hook before_each)
    : loaded_(loaded), profile_(profile), before_each_(std::move(before_each)), captured_(loaded, profile) {
  const std::vector<Instruction>& instructions = loaded.program().instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    lane_of_.push_back(instructions[i].lane);
    nth(lanes_, instructions[i].lane).instructions.push_back(static_cast<int32_t>(i));
  }
  events_.resize(instructions.size());
  if (loaded.device().is_asynchronous()) {
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (loaded.is_asynchronous(lane_of_[i])) events_[i] = loaded.device().make_event();
    }
    begin_ = loaded.device().make_event();
    finish_seconds_.resize(instructions.size());
  }
  for (const Lane lane : kEachLane) {
    LaneState& state = nth(lanes_, lane);
    state.lane = lane;
    if (state.instructions.empty() || state.lane == Lane::kCompute) continue;
    threads_.push_back(&state);
  }
  try {
    for (LaneState* state : threads_) state->thread = std::thread([this, state] { run_thread(*state); });
  } catch (const std::system_error& error) {
    stop();
    throw machine_error("lanes", "expected to start {} threads, got \"{}\"; raise the limit on threads (ulimit -u)",
                        threads_.size(), error.what());
  }
}

LaneThreads::~LaneThreads() { stop(); }

void LaneThreads::stop() {
  stop_ = true;
  for (LaneState* state : threads_) {
    ++state->rounds;
    state->rounds.notify_one();
  }
  for (LaneState* state : threads_) {
    if (state->thread.joinable()) state->thread.join();
  }
}

void LaneThreads::run(const SectionRange& section) {
  if (captured_.run(section)) return;
  int32_t running = 0;
  for (LaneState& state : lanes_) {
    const auto begin = std::lower_bound(state.instructions.begin(), state.instructions.end(), section.begin);
    state.todo = {begin, std::lower_bound(begin, state.instructions.end(), section.end)};
    state.done = section.begin;
    if (!state.todo.empty() && state.lane != Lane::kCompute) ++running;
  }
  running_ = running;
  begin_queues();
  for (LaneState* state : threads_) {
    if (state->todo.empty()) continue;
    ++state->rounds;
    state->rounds.notify_one();
  }
  run_lane(nth(lanes_, Lane::kCompute));
  if (running_ > 0) {
    const double before = now_seconds();
    for (int32_t left = running_; left > 0; left = running_) running_.wait(left);
    if (!begin_) profile_.add_stall(now_seconds() - before);
  }
  finish_queues();
  if (error_) std::rethrow_exception(error_);
  record_times(section);
}

void LaneThreads::begin_queues() {
  if (!begin_) return;
  loaded_.memory().device_queue(Lane::kCompute).record(*begin_);
  begin_seconds_ = now_seconds();  // the queues are empty, so this is when it happens
}

void LaneThreads::finish_queues() {
  if (!begin_) return;
  for (const LaneState& state : lanes_) {
    // The compute queue contains begin_, whether or not it has work.
    const bool is_used = !state.todo.empty() || state.lane == Lane::kCompute;
    if (!is_used || !loaded_.is_asynchronous(state.lane)) continue;
    try {
      loaded_.memory().device_queue(state.lane).finish();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }
}

// An instruction of a queue starts when the one before it and all that it waits for have finished.
void LaneThreads::record_times(const SectionRange& section) {
  if (!begin_) return;
  std::array<double, kLanes> last;
  last.fill(begin_seconds_);
  double finish = begin_seconds_;
  for (int32_t i = section.begin; i < section.end; ++i) {
    double& seconds = nth(finish_seconds_, i);
    if (is_asynchronous(i)) {
      const Lane lane = nth(lane_of_, i);
      double& previous = nth(last, lane);
      double start = previous;
      for (const int32_t other : at(i).waits) start = std::max(start, nth(finish_seconds_, other));
      seconds = std::max(start, begin_seconds_ + event_of(i).seconds_since(*begin_));
      if (lane == Lane::kCompute) profile_.add_stall(start - previous);
      profile_.record(lane, i, start, seconds);
      previous = seconds;
    }
    finish = std::max(finish, seconds);
  }
  profile_.add_stall(finish - nth(last, Lane::kCompute));
}

void LaneThreads::run_thread(LaneState& self) {
  wake_promptly();
  for (uint32_t seen = 0;;) {
    self.rounds.wait(seen);
    ++seen;
    if (stop_) return;
    run_lane(self);
    if (--running_ == 0) running_.notify_one();
  }
}

void LaneThreads::run_lane(LaneState& self) {
  try {
    if (loaded_.runs_ahead(self.lane)) {
      run_ahead(self);
    } else {
      run_in_order(self);
    }
  } catch (...) {
    // The disk must no longer access the memory when the caller learns of the error.
    if (Memory::is_disk_lane(self.lane)) drain(loaded_.memory().disk_queue(self.lane));
    fail(std::current_exception());
  }
}

void LaneThreads::run_in_order(LaneState& self) {
  const bool queues = loaded_.is_asynchronous(self.lane);
  double before = now_seconds();
  for (const int32_t i : self.todo) {
    if (failed_) return;
    if (!is_ready(self, i)) {
      if (!await(self, i)) return;
      const double after = now_seconds();
      if (self.lane == Lane::kCompute && !queues) profile_.add_stall(after - before);
      before = after;
    }
    if (before_each_) before_each_(i);
    if (queues) {
      put_in_queue(self, i);
      continue;
    }
    loaded_.execute(i);
    publish(self, i);
    const double after = now_seconds();
    note_time(self, i, before, after);
    before = after;
  }
}

void LaneThreads::put_in_queue(LaneState& self, int32_t instruction) {
  DeviceQueue& queue = loaded_.memory().device_queue(self.lane);
  for (const int32_t other : at(instruction).waits) {
    if (is_asynchronous(other)) queue.wait(event_of(other));
  }
  loaded_.execute(instruction);
  queue.record(event_of(instruction));
  publish(self, instruction);
}

void LaneThreads::note_time(LaneState& self, int32_t instruction, double start, double finish) {
  profile_.record(self.lane, instruction, start, finish);
  if (begin_) nth(finish_seconds_, instruction) = finish;
}

void LaneThreads::run_ahead(LaneState& self) {
  struct Started {
    std::optional<DiskQueue::Ticket> ticket;  // none if nothing moves
    double seconds = 0;
  };
  std::array<Started, kAhead> started;
  DiskQueue& queue = loaded_.memory().disk_queue(self.lane);
  const std::span<const int32_t> todo = self.todo;
  size_t first = 0, next = 0;  // the oldest in flight, and the next to be started
  const auto may_start_now = [&] {
    const auto in_flight = todo.subspan(first, next - first);
    return !failed_ && is_ready(self, todo[next]) && std::none_of(in_flight.begin(), in_flight.end(), [&](int32_t i) {
      return loaded_.write_same_bytes(i, todo[next]);
    });
  };
  for (;;) {
    while (next < todo.size() && next - first < kAhead && may_start_now()) {
      if (before_each_) before_each_(todo[next]);
      started[next % kAhead] = {loaded_.start(todo[next]), now_seconds()};
      ++next;
    }
    if (first < next) {
      if (const auto& ticket = started[first % kAhead].ticket) queue.wait(*ticket);
      publish(self, todo[first]);
      note_time(self, todo[first], started[first % kAhead].seconds, now_seconds());
      ++first;
    } else if (next == todo.size() || failed_ || !await(self, todo[next])) {
      return;
    }
  }
}

bool LaneThreads::is_ready(const LaneState& self, int32_t instruction) {
  const std::vector<int32_t>& waits = at(instruction).waits;
  const bool queues = loaded_.is_asynchronous(self.lane);
  return std::all_of(waits.begin(), waits.end(), [&](int32_t other) {
    return state_of(other).done > other && (queues || !is_asynchronous(other) || event_of(other).has_happened());
  });
}

bool LaneThreads::await(LaneState& self, int32_t instruction) {
  const std::vector<int32_t>& waits = at(instruction).waits;
  const bool queues = loaded_.is_asynchronous(self.lane);
  return std::all_of(waits.begin(), waits.end(), [&](int32_t other) {
    if (!await_one(self, other)) return false;
    if (!queues && is_asynchronous(other)) event_of(other).await();
    return true;
  });
}

// All accesses to `done`, `parked_on` and `failed_` are sequentially consistent: either the sleeper sees that there is
// nothing to wait for, or the thread that finishes sees the sleeper.
bool LaneThreads::await_one(LaneState& self, int32_t other) {
  const std::atomic<int32_t>& done = state_of(other).done;
  for (int spin = 0; done <= other && !failed_ && spin < kSpins; ++spin) cpu_relax();
  while (done <= other && !failed_) {
    self.parked_on = other;
    if (done <= other && !failed_) self.parked_on.wait(other);
    self.parked_on = kNone;
  }
  return !failed_;
}

void LaneThreads::publish(LaneState& self, int32_t instruction) {
  self.done = instruction + 1;
  for (LaneState& sleeper : lanes_) {
    int32_t other = sleeper.parked_on;
    if (other == kNone || other > instruction || &state_of(other) != &self) continue;
    if (sleeper.parked_on.compare_exchange_strong(other, kNone)) sleeper.parked_on.notify_one();
  }
}

void LaneThreads::fail(std::exception_ptr error) {
  if (!has_error_.exchange(true)) error_ = std::move(error);
  failed_ = true;
  for (LaneState& sleeper : lanes_) {
    if (sleeper.parked_on.exchange(kNone) != kNone) sleeper.parked_on.notify_one();
  }
}

}  // namespace spillway
