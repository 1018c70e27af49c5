// When the report of a run that goes on is written again: often enough to be watched, and so seldom that the run does
// not notice.
#pragma once

#include <filesystem>
#include <string_view>

namespace spillway {

// Times are those of a clock in seconds. One thread.
class LiveReportPace {
 public:
  // At least so long between two, and of the run's time at most this share.
  static constexpr double kMinSeconds = 2, kMaxShare = 0.005;

  [[nodiscard]] bool is_due(double now) const { return !has_written_ || now >= next_; }
  // One was written from `begin` to `end`.
  void wrote(double begin, double end);
  // None is due any more: what cannot be written now is left to the end of the run.
  void give_up() {
    next_ = kNever;
    has_written_ = true;
  }

 private:
  static constexpr double kNever = 1e300;
  bool has_written_ = false;
  double next_ = 0;
};

// Writes the whole file under its name at once, as readers see it, and waits for no disk: after a crash of the machine
// its content is not known. Throws as AtomicFile.
void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace spillway
