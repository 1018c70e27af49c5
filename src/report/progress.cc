#include "report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "base/terminal.h"
#include "base/text.h"

namespace spillway {
namespace {

// Text of bounded length in memory of the caller's.
class TextBuffer {
 public:
  explicit TextBuffer(std::span<char> memory) : memory_(memory) {}

  template <typename... Args>
  void append(fmt::format_string<Args...> text, Args&&... args) {
    const size_t room = memory_.size() - size_;
    const auto result = fmt::format_to_n(memory_.data() + size_, room, text, std::forward<Args>(args)...);
    size_ += std::min(room, result.size);
  }
  void fill(char c, int64_t times) {
    for (int64_t i = 0; i < times && size_ < memory_.size(); ++i) memory_[size_++] = c;
  }
  [[nodiscard]] std::string_view text() const { return {memory_.data(), size_}; }

 private:
  std::span<char> memory_;
  size_t size_ = 0;
};

struct Unit {
  double size;
  int digits;
  std::string_view name;
};

Unit unit_for(int64_t bytes) {
  return bytes >= kGiB ? Unit{static_cast<double>(kGiB), 2, "GiB"} : Unit{static_cast<double>(kMiB), 1, "MiB"};
}

// "380.0/400.0 MiB", "380.0 MiB/4.00 GiB"; without a limit "380.0 MiB".
void append_share(TextBuffer& out, int64_t bytes, int64_t limit) {
  const Unit unit = unit_for(bytes), of = unit_for(limit);
  out.append("{:.{}f}", static_cast<double>(bytes) / unit.size, unit.digits);
  if (limit > 0 && unit.name == of.name) out.append("/{:.{}f}", static_cast<double>(limit) / of.size, of.digits);
  out.append(" {}", unit.name);
  if (limit > 0 && unit.name != of.name)
    out.append("/{:.{}f} {}", static_cast<double>(limit) / of.size, of.digits, of.name);
}

void append_tiers(TextBuffer& out, std::span<const TierMemory> tiers) {
  for (size_t i = 0; i < tiers.size(); ++i) {
    out.append("{}{} ", i > 0 ? "  " : "", tiers[i].name);
    append_share(out, tiers[i].peak_bytes, tiers[i].budget_bytes);
  }
}

void append_time(TextBuffer& out, double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole >= 3600) {
    out.append("{}:{:02}:{:02} left", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    out.append("{}:{:02} left", whole / 60, whole % 60);
  }
}

bool has_time(double seconds_left) { return seconds_left >= 0 && seconds_left < 1e7; }

// Before the first step of a run there is none.
bool has_loss(const ProgressState& state) { return state.tokens_per_second > 0 || state.running_seconds < 0; }

// The parts of the bar's line behind the bar, the most important first.
constexpr int kParts = 6;

void append_part(TextBuffer& out, const ProgressState& state, int part) {
  switch (part) {
    case 0:
      out.append("step {}/{}", state.step, state.total_steps);
      if (state.running_seconds >= 0) out.append(", {:.0f} s into the next", state.running_seconds);
      break;
    case 1:
      if (has_loss(state)) out.append("loss {:.4f}", state.loss);
      break;
    case 2:
      if (has_time(state.seconds_left) && state.step < state.total_steps) append_time(out, state.seconds_left);
      break;
    case 3:
      if (has_loss(state)) out.append("{:.0f} tokens/s", state.tokens_per_second);
      break;
    case 4:
      if (!state.slowest.empty()) out.append("{:.0f} % waiting for {}", 100 * state.waited_share, state.slowest);
      break;
    case 5:
      append_tiers(out, state.tiers);
      break;
    default:
      break;
  }
}

void append_part(TextBuffer& out, const LoadState& state, int part) {
  switch (part) {
    case 0:
      out.append("{} ", state.what);
      if (state.unit.empty()) {
        append_share(out, state.bytes, state.total_bytes);
      } else {
        out.append("{}/{} {}", state.bytes, state.total_bytes, state.unit);
      }
      break;
    case 2:
      if (has_time(state.seconds_left) && state.bytes < state.total_bytes) append_time(out, state.seconds_left);
      break;
    case 5:
      append_tiers(out, state.tiers);
      break;
    default:
      break;
  }
}

double share_of(int64_t done, int64_t total) {
  return total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
}

// Returns the share of all steps that is done. The running step counts by its time, up to a limit, since its end is not
// known in advance.
double share_of(const ProgressState& state) {
  constexpr double kAlmost = 0.95;
  double within = 0;
  if (state.running_seconds > 0 && state.expected_seconds > 0)
    within = std::min(kAlmost, state.running_seconds / state.expected_seconds);
  if (state.total_steps <= 0) return 0;
  return std::clamp((static_cast<double>(state.step) + within) / static_cast<double>(state.total_steps), 0.0, 1.0);
}

template <typename State>
std::string_view bar_of(const State& state, double done, int columns, std::span<char> buffer) {
  constexpr int kMinBar = 10, kMaxBar = 40;
  std::array<char, 256> memory;
  TextBuffer parts(memory);
  int taken = 0;
  const int room = std::max(0, columns - 5);  // "100% "
  for (int part = 0; part < kParts; ++part) {
    std::array<char, 160> one_memory;
    TextBuffer one(one_memory);
    append_part(one, state, part);
    const int needed = static_cast<int>(one.text().size()) + 2;
    if (one.text().empty() || taken + needed > room) continue;
    parts.append("  {}", one.text());
    taken += needed;
  }
  const int bar = std::min(kMaxBar, room - taken - 2);
  TextBuffer out(first_of(buffer, std::clamp<int64_t>(columns, 0, std::ssize(buffer))));
  out.append("{:3.0f}% ", std::floor(100 * done));
  if (bar >= kMinBar) {
    const auto full = static_cast<int64_t>(done * bar);
    out.append("[");
    out.fill('#', full);
    out.fill(' ', bar - full);
    out.append("]");
  }
  out.append("{}", parts.text());
  return out.text();
}

template <typename State>
std::string_view line_of(const State& state, std::span<char> buffer) {
  TextBuffer out(buffer);
  for (int part : {0, 1, 3, 4, 5, 2}) {
    std::array<char, 160> one_memory;
    TextBuffer one(one_memory);
    append_part(one, state, part);
    if (!one.text().empty()) out.append("{}{}", out.text().empty() ? "" : "  ", one.text());
  }
  return out.text();
}

void write_all(int file, std::string_view text) {
  [[maybe_unused]] const auto written = ::write(file, text.data(), text.size());
}

}  // namespace

std::string_view format_bar(const ProgressState& state, int columns, std::span<char> buffer) {
  return bar_of(state, share_of(state), columns, buffer);
}

std::string_view format_bar(const LoadState& state, int columns, std::span<char> buffer) {
  return bar_of(state, share_of(state.bytes, state.total_bytes), columns, buffer);
}

std::string_view format_progress_line(const ProgressState& state, std::span<char> buffer) {
  return line_of(state, buffer);
}

std::string_view format_progress_line(const LoadState& state, std::span<char> buffer) { return line_of(state, buffer); }

Progress::Progress(const Options& options) : options_(options), is_terminal_(is_terminal(options.file)) {}

Progress::~Progress() {
  {
    const auto lock = stop_ticking();
    is_ending_ = true;
  }
  ending_.notify_all();
  if (ticker_.joinable()) ticker_.join();
  if (has_bar_) write_all(options_.file, "\n");
}

double Progress::Pace::seconds_left(int64_t done, int64_t total, double now) {
  if (first < 0) {
    first = done;
    since = now;
  }
  if (done <= first) return -1;
  return (now - since) / static_cast<double>(done - first) * static_cast<double>(total - done);
}

template <typename State>
void Progress::show(const State& state, bool is_last, bool is_due_in_pipe, double now) {
  std::array<char, 512> memory;
  TextBuffer out(memory);
  std::array<char, 400> text;
  if (is_terminal_) {
    if (has_bar_ && !is_last && now - last_draw_ < options_.seconds_per_draw) return;
    out.append("\r\033[K{}", format_bar(state, terminal_columns(options_.file) - 1, text));
    has_bar_ = true;
    last_draw_ = now;
  } else {
    if (!is_last && !is_due_in_pipe) return;
    out.append("{}\n", format_progress_line(state, text));
  }
  write_all(options_.file, out.text());
}

std::unique_lock<std::mutex> Progress::stop_ticking() {
  std::unique_lock lock(mutex_);
  is_running_ = false;
  return lock;
}

void Progress::begin_step(const ProgressState& state, double expected_seconds, double now) {
  if (!is_terminal_) return;
  const std::lock_guard lock(mutex_);
  running_ = state;
  running_.expected_seconds = expected_seconds;
  began_ = now;
  is_running_ = true;
  if (!ticker_.joinable()) ticker_ = std::thread([this] { tick(); });
}

void Progress::tick() {
  constexpr std::chrono::milliseconds kPause{250};
  constexpr double kWorthShowing = 1;  // seconds; of shorter steps the bar moves by itself
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kPause, [this] { return is_ending_; })) {
    if (!is_running_) continue;
    running_.running_seconds = now_seconds() - began_;
    if (running_.running_seconds < kWorthShowing) continue;
    running_.seconds_left = -1;
    draw(running_);
  }
}

void Progress::draw(const ProgressState& state) {
  std::array<char, 512> memory;
  TextBuffer out(memory);
  std::array<char, 400> text;
  out.append("\r\033[K{}", format_bar(state, terminal_columns(options_.file) - 1, text));
  write_all(options_.file, out.text());
  has_bar_ = true;
}

void Progress::say(std::string_view what) {
  check_interrupt();
  const auto lock = stop_ticking();
  std::array<char, 128> memory;
  TextBuffer out(memory);
  out.append("{}{} ...{}", is_terminal_ ? "\r\033[K" : "", shown_line(what), is_terminal_ ? "" : "\n");
  write_all(options_.file, out.text());
}

void Progress::count(std::string_view what, int64_t done, double now) {
  check_interrupt();
  const double pause = is_terminal_ ? options_.seconds_per_draw : options_.seconds_per_load;
  if (last_count_ == 0) last_count_ = now;  // what is done at once needs no line
  if (now - last_count_ < pause) return;
  last_count_ = now;
  std::array<char, 128> memory;
  TextBuffer out(memory);
  out.append("{}: {}", what, done);
  say(out.text());
}

void Progress::hint(std::string_view what) {
  if (is_terminal_) say(what);
}

void Progress::load(LoadState state, double now) {
  check_interrupt();
  const auto lock = stop_ticking();
  state.seconds_left = bytes_.seconds_left(state.bytes, state.total_bytes, now);
  if (bytes_.first == state.bytes) last_load_line_ = now;
  const bool is_due = now - last_load_line_ >= options_.seconds_per_load;
  if (is_due) last_load_line_ = now;
  show(state, state.bytes >= state.total_bytes, is_due, now);
  if (state.bytes >= state.total_bytes) bytes_ = {};  // what comes next has a pace of its own
}

void Progress::update(ProgressState state, double now) {
  const auto lock = stop_ticking();
  state.seconds_left = steps_.seconds_left(state.step, state.total_steps, now);
  const bool is_due = state.step % std::max<int64_t>(1, options_.steps_per_line) == 0;
  loss_sum_ += state.loss;
  ++losses_;
  if (!is_terminal_) state.loss = loss_sum_ / static_cast<double>(losses_);
  if (is_due) {
    loss_sum_ = 0;
    losses_ = 0;
  }
  show(state, state.step >= state.total_steps, is_due, now);
}

void Progress::clear() {
  const auto lock = stop_ticking();
  if (is_terminal_) write_all(options_.file, "\r\033[K");
  has_bar_ = false;
}

std::function<void(int64_t, int64_t)> packing_progress(Progress& progress) {
  constexpr int64_t kMinRows = 1'000'000;  // fewer are packed in an instant
  return [&progress](int64_t rows, int64_t of) {
    if (of >= kMinRows)
      progress.load({.what = "packing", .bytes = rows, .total_bytes = of, .unit = "rows"}, now_seconds());
  };
}

std::function<void(int64_t, int64_t)> measuring_progress(Progress& progress) {
  return [&progress](int64_t done, int64_t of) {
    progress.hint(done < of ? fmt::format("measuring operations: {} of {}", done, of) : "planning");
  };
}

}  // namespace spillway
