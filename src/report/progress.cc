#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"

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

void append_tier(TextBuffer& out, const TierMemory& tier) {
  const bool large = tier.budget_bytes >= kGiB;
  const double unit = static_cast<double>(large ? kGiB : kMiB);
  out.append("{} {:.{}f}/{:.{}f} {}", tier.name, static_cast<double>(tier.peak_bytes) / unit, large ? 2 : 1,
             static_cast<double>(tier.budget_bytes) / unit, large ? 2 : 1, large ? "GiB" : "MiB");
}

void append_time(TextBuffer& out, double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole >= 3600) {
    out.append("{}:{:02}:{:02} left", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    out.append("{}:{:02} left", whole / 60, whole % 60);
  }
}

bool has_time(const ProgressState& state) {
  return state.seconds_left >= 0 && state.seconds_left < 1e7 && state.step < state.total_steps;
}

// The parts of the bar's line behind the bar, the most important first.
constexpr int kParts = 5;

void append_part(TextBuffer& out, const ProgressState& state, int part) {
  switch (part) {
    case 0:
      out.append("step {}/{}", state.step, state.total_steps);
      break;
    case 1:
      out.append("loss {:.4f}", state.loss);
      break;
    case 2:
      if (has_time(state)) append_time(out, state.seconds_left);
      break;
    case 3:
      out.append("{:.0f} tokens/s", state.tokens_per_second);
      break;
    case 4:
      for (size_t i = 0; i < state.tiers.size(); ++i) {
        if (i > 0) out.append("  ");
        append_tier(out, state.tiers[i]);
      }
      break;
    default:
      break;
  }
}

int terminal_columns(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_all(int file, std::string_view text) {
  [[maybe_unused]] const auto written = ::write(file, text.data(), text.size());
}

}  // namespace

std::string_view format_bar(const ProgressState& state, int columns, std::span<char> buffer) {
  constexpr int kLeastBar = 10, kMostBar = 40;
  const double share =
      state.total_steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.total_steps) : 0;
  const double done = std::clamp(share, 0.0, 1.0);
  std::array<char, 256> memory;
  TextBuffer parts(memory);
  int taken = 0;
  const int room = std::max(0, columns - 5);  // "100% "
  for (int part = 0; part < kParts; ++part) {
    std::array<char, 128> one_memory;
    TextBuffer one(one_memory);
    append_part(one, state, part);
    const int needed = static_cast<int>(one.text().size()) + 2;
    if (one.text().empty() || taken + needed > room) continue;
    parts.append("  {}", one.text());
    taken += needed;
  }
  const int bar = std::min(kMostBar, room - taken - 2);
  TextBuffer out(buffer.first(std::min(buffer.size(), static_cast<size_t>(std::max(0, columns)))));
  out.append("{:3.0f}% ", std::floor(100 * done));
  if (bar >= kLeastBar) {
    const auto full = static_cast<int64_t>(done * bar);
    out.append("[");
    out.fill('#', full);
    out.fill(' ', bar - full);
    out.append("]");
  }
  out.append("{}", parts.text());
  return out.text();
}

std::string_view format_progress_line(const ProgressState& state, std::span<char> buffer) {
  TextBuffer out(buffer);
  for (int part : {0, 1, 3, 4, 2}) {
    std::array<char, 128> one_memory;
    TextBuffer one(one_memory);
    append_part(one, state, part);
    if (!one.text().empty()) out.append("{}{}", out.text().empty() ? "" : "  ", one.text());
  }
  return out.text();
}

Progress::Progress(const Options& options) : options_(options), is_terminal_(isatty(options.file) != 0) {}

Progress::~Progress() {
  if (has_bar_) write_all(options_.file, "\n");
}

void Progress::update(ProgressState state, double now) {
  if (first_step_ < 0) {
    first_step_ = state.step;
    first_time_ = now;
  } else if (state.step > first_step_) {
    const double per_step = (now - first_time_) / static_cast<double>(state.step - first_step_);
    state.seconds_left = per_step * static_cast<double>(state.total_steps - state.step);
  }
  const bool is_last = state.step >= state.total_steps;
  std::array<char, 512> memory;
  TextBuffer out(memory);
  std::array<char, 400> text;
  if (is_terminal_) {
    if (has_bar_ && !is_last && now - last_draw_ < options_.seconds_per_draw) return;
    out.append("\r\033[K{}", format_bar(state, terminal_columns(options_.file) - 1, text));
    has_bar_ = true;
    last_draw_ = now;
  } else {
    if (!is_last && state.step % std::max<int64_t>(1, options_.steps_per_line) != 0) return;
    out.append("{}\n", format_progress_line(state, text));
  }
  write_all(options_.file, out.text());
}

}  // namespace spillway
