// Shows the progress of a run on standard error: a bar on one line of a terminal, plain lines in a pipe.
//
// It takes values and shows text; it knows no trainer. Drawing allocates nothing, so that it may happen between steps.
// While a step runs, a thread keeps the bar of a terminal moving. All functions but update() may throw Interrupted
// (base/interrupt.h), so that a signal ends any long work here.
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
  std::string_view slowest{};         // "rank 1 on HOST", for which the others waited; empty: none worth naming
  double waited_share = 0;            // of the last step
};

// The progress of going through bytes, or things of another unit, before or after training.
struct LoadState {
  std::string_view what;  // "weights"
  int64_t bytes = 0, total_bytes = 0;
  std::string_view unit{};  // "rows"; empty: bytes
  std::span<const TierMemory> tiers;
  double seconds_left = -1;
};

// Return "45% [####      ] step 45/100 · loss 1.2345 · ..." with at most `columns` characters, written into `buffer`.
// Parts for which there is no room are left out, the least important first.
[[nodiscard]] std::string_view format_bar(const ProgressState& state, int columns, std::span<char> buffer);
[[nodiscard]] std::string_view format_bar(const LoadState& state, int columns, std::span<char> buffer);

// Return "step 45/100 loss 1.2345 1234 tokens/s device 398.6/400.0 MiB 1:23 left", for a pipe.
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
  // Ends the bar's line, so that it stays on the terminal.
  ~Progress();
  Progress(Progress&&) = delete;

  // Sets a value that is only known once the data are read.
  void set_steps_per_line(int64_t steps) { options_.steps_per_line = steps; }
  // Shows what is going on now; on a terminal until the next call of any function.
  void say(std::string_view what);
  // The same for work that is over in a moment: shows nothing in a pipe.
  void hint(std::string_view what);
  // Shows the count of something without a known total, if it is time to.
  void count(std::string_view what, int64_t done, double now);
  // Show the state if it is time to, and always the last one. `now` is a clock in seconds; the time that is left is
  // estimated from the progress since the first call. Not thread-safe.
  void load(LoadState state, double now);
  void update(ProgressState state, double now);
  // Notes the begin of a step that may take `expected_seconds`; `state` is that of the last update(). On a terminal the
  // bar shows how long it has been running, until the next call of any function.
  void begin_step(const ProgressState& state, double expected_seconds, double now);
  // Removes the bar from the terminal, to make room for text.
  void clear();

 private:
  // When work of one kind began, to estimate the time that is left.
  struct Pace {
    int64_t first = -1;
    double since = 0;
    [[nodiscard]] double seconds_left(int64_t done, int64_t total, double now);
  };
  template <typename State>
  void show(const State& state, bool is_last, bool is_due_in_pipe, double now);
  void draw(const ProgressState& state);
  // Stops the ticker from drawing: no step runs any more. Returns the lock that protects what is drawn.
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

// Returns a callback that shows a bar while many rows are packed; borrows `progress`.
[[nodiscard]] std::function<void(int64_t rows, int64_t of)> packing_progress(Progress& progress);

// Returns a callback that shows on a terminal how many operations of a job are measured; borrows `progress`.
[[nodiscard]] std::function<void(int64_t done, int64_t of)> measuring_progress(Progress& progress);

}  // namespace spillway
