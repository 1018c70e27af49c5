// How far a run is: a bar that stays on one line of a terminal, plain lines in a pipe; on standard error.
//
// Values in, text out: it knows no trainer. Drawing allocates nothing, so that it may happen between steps. While a
// step runs, a thread keeps the bar of a terminal moving. Long work comes by here, so it is also where a signal ends
// it: all but update() may throw Interrupted (base/interrupt.h).
//
//     Progress progress({});
//     progress.say("reading the data");         // a phase that has no measure
//     progress.load({.what = "weights", ...});  // one that is measured in bytes
//     progress.update({.step = 1, ...});        // training
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>

namespace spillway {

struct TierMemory {
  std::string_view name;  // "device"
  int64_t peak_bytes = 0, budget_bytes = 0;
};

struct ProgressState {
  int64_t step = 0, total_steps = 0;  // done, and to do in all
  double loss = 0;                    // of the last step
  double tokens_per_second = 0;
  std::span<const TierMemory> tiers;  // those in use
  double seconds_left = -1;           // negative: not known
  double running_seconds = -1;        // of the step that runs, where one is known to; negative: none
  double expected_seconds = 0;        // what that may take in all
};

// Going through so many bytes, or things of another unit, before or after training.
struct LoadState {
  std::string_view what;  // "weights"
  int64_t bytes = 0, total_bytes = 0;
  std::string_view unit{};  // "rows"; empty: bytes
  std::span<const TierMemory> tiers;
  double seconds_left = -1;
};

// "45% [####      ] step 45/100 · loss 1.2345 · ..." of at most `columns` characters, written into `buffer`; what there
// is no room for is left out, the least important first.
[[nodiscard]] std::string_view format_bar(const ProgressState& state, int columns, std::span<char> buffer);
[[nodiscard]] std::string_view format_bar(const LoadState& state, int columns, std::span<char> buffer);

// "step 45/100 loss 1.2345 1234 tokens/s device 398.6/400.0 MiB 1:23 left", for a pipe.
[[nodiscard]] std::string_view format_progress_line(const ProgressState& state, std::span<char> buffer);
[[nodiscard]] std::string_view format_progress_line(const LoadState& state, std::span<char> buffer);

class Progress {
 public:
  struct Options {
    int file = 2;                   // descriptor to draw on
    int64_t steps_per_line = 1;     // in a pipe, where a line has the mean loss of its steps
    double seconds_per_draw = 0.1;  // on a terminal
    double seconds_per_load = 5;    // in a pipe, while bytes are loaded
  };

  explicit Progress(const Options& options);
  // Ends the bar's line, so that it stays.
  ~Progress();
  Progress(Progress&&) = delete;

  // For what only a run with its data knows.
  void set_steps_per_line(int64_t steps) { options_.steps_per_line = steps; }
  // Names what goes on now; on a terminal until the next call of any.
  void say(std::string_view what);
  // The same of what is over in a moment: nothing in a pipe.
  void hint(std::string_view what);
  // Counts what grows to no known end, if it is time to.
  void count(std::string_view what, int64_t done, double now);
  // Shows the state, if it is time to; the last one always. `now` is a clock in seconds; what is left is judged by what
  // has been done since the first call. One thread.
  void load(LoadState state, double now);
  void update(ProgressState state, double now);
  // A step begins that may take `expected_seconds`; `state` is that of the last update(). On a terminal the bar shows
  // how long it runs, until the next call of any.
  void begin_step(const ProgressState& state, double expected_seconds, double now);
  // Takes the bar off the terminal, for text that is to stand there.
  void clear();

 private:
  // When work of one sort began, for what is left of it.
  struct Pace {
    int64_t first = -1;
    double since = 0;
    [[nodiscard]] double seconds_left(int64_t done, int64_t total, double now);
  };
  template <typename State>
  void show(const State& state, bool is_last, bool is_due_in_pipe, double now);
  void draw(const ProgressState& state);
  // Nothing runs any more that the ticker would draw. The lock that keeps it from drawing.
  [[nodiscard]] std::unique_lock<std::mutex> stop_ticking();
  void tick();

  Options options_;
  bool is_terminal_;
  bool has_bar_ = false;
  double last_draw_ = 0, last_load_line_ = 0, last_count_ = 0;
  Pace steps_, bytes_;
  double loss_sum_ = 0;  // of the steps since the last line
  int64_t losses_ = 0;

  std::mutex mutex_;  // of all that is drawn, and of what follows
  std::condition_variable ending_;
  bool is_ending_ = false, is_running_ = false;
  ProgressState running_;  // the step that runs
  double began_ = 0;
  std::thread ticker_;  // of a terminal, from the first step on
};

// Shows a bar while many rows are packed; borrows `progress`.
[[nodiscard]] std::function<void(int64_t rows, int64_t of)> packing_progress(Progress& progress);

// Says on a terminal how many operations of a job are measured; borrows `progress`.
[[nodiscard]] std::function<void(int64_t done, int64_t of)> measuring_progress(Progress& progress);

}  // namespace spillway
