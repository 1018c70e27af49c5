// Rewrites the report of a run in progress: often enough to be watched, and seldom enough not to slow the run down.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>

#include "train/trainer.h"

namespace spillway {

// Times are seconds of a clock. Not thread-safe.
class LiveReportPace {
 public:
  // The least time between two reports, and the largest share of the run's time for writing them.
  static constexpr double kMinSeconds = 2, kMaxShare = 0.005;

  [[nodiscard]] bool is_due(double now) const { return !has_written_ || now >= next_; }
  // Notes that a report was written from `begin` to `end`.
  void wrote(double begin, double end);
  // Makes no more reports due: what cannot be written now is left to the end of the run.
  void give_up() {
    next_ = kNever;
    has_written_ = true;
  }

 private:
  static constexpr double kNever = 1e300;
  bool has_written_ = false;
  double next_ = 0;
};

// The report.html of a run in progress. The run makes its content. Not thread-safe.
class LivePage {
 public:
  // `state` is RunFacts::state.
  using MakeReport =
      std::function<nlohmann::ordered_json(std::string_view state, const train::TrainingOutcome& so_far)>;

  LivePage(std::filesystem::path path, MakeReport make) : path_(std::move(path)), make_(std::move(make)) {}

  // Writes the page if it is due, without waiting for the disk. If it cannot be written, a warning says so once, and
  // the run goes on.
  void show(const train::TrainingOutcome& so_far);
  // Writes the last page of a run that ends with an error. Throws nothing, since that error is what matters.
  void show_failure(train::TrainingOutcome so_far, std::string_view error) const;

 private:
  void write(std::string_view state, const train::TrainingOutcome& so_far) const;

  std::filesystem::path path_;
  MakeReport make_;
  LiveReportPace pace_;
};

// Replaces the file as a whole, for readers at least, without waiting for the disk: after a crash of the machine its
// content is undefined. Throws as AtomicFile.
void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace spillway
