// How far a run is: a bar that stays on one line of a terminal, plain lines in a pipe; on standard error.
//
// Values in, text out: it knows no trainer. Drawing allocates nothing, so that it may happen between steps.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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
};

// "45% [####      ] step 45/100 · loss 1.2345 · ..." of at most `columns` characters, written into `buffer`; what there
// is no room for is left out, the least important first.
[[nodiscard]] std::string_view format_bar(const ProgressState& state, int columns, std::span<char> buffer);

// "step 45/100 loss 1.2345 1234 tokens/s device 398.6/400.0 MiB 1:23 left", for a pipe.
[[nodiscard]] std::string_view format_progress_line(const ProgressState& state, std::span<char> buffer);

class Progress {
 public:
  struct Options {
    int file = 2;                   // descriptor to draw on
    int64_t steps_per_line = 1;     // in a pipe
    double seconds_per_draw = 0.1;  // on a terminal
  };

  explicit Progress(const Options& options);
  // Ends the bar's line, so that it stays.
  ~Progress();
  Progress(Progress&&) = delete;

  // Shows the state, if it is time to. `now` is a clock in seconds; what is left is judged by the steps since the first
  // call. One thread.
  void update(ProgressState state, double now);

 private:
  Options options_;
  bool is_terminal_;
  bool has_bar_ = false;
  double first_time_ = 0, last_draw_ = 0;
  int64_t first_step_ = -1;
};

}  // namespace spillway
