// When the report of a run that goes on is written again: often enough to be watched, and so seldom that the run does
// not notice.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>

#include "train/trainer.h"

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

// report.html of a run that goes on. What it shows is made by the run. One thread.
class LivePage {
 public:
  // `state` is RunFacts::state.
  using MakeReport =
      std::function<nlohmann::ordered_json(std::string_view state, const train::TrainingOutcome& so_far)>;

  LivePage(std::filesystem::path path, MakeReport make) : path_(std::move(path)), make_(std::move(make)) {}

  // Writes the page where that is due; it waits for no disk. Where it cannot be written, a warning says so, once, and
  // the run goes on.
  void show(const train::TrainingOutcome& so_far);
  // The last page of a run that ends with an error. Throws nothing: that error is what matters.
  void show_failure(train::TrainingOutcome so_far, std::string_view error) const;

 private:
  void write(std::string_view state, const train::TrainingOutcome& so_far) const;

  std::filesystem::path path_;
  MakeReport make_;
  LiveReportPace pace_;
};

// Writes the whole file under its name at once, as readers see it, and waits for no disk: after a crash of the machine
// its content is not known. Throws as AtomicFile.
void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace spillway
