// The metrics of an objective over a run, for its report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// A curve of at most kMaxPoints points, however long the run: each is the mean over a range of steps, placed at the
// last of them. Memory is bounded by that of kMaxPoints points.
class MetricCurve {
 public:
  static constexpr size_t kMaxPoints = 1024;
  struct Point {
    int64_t step = 0;
    double value = 0;
  };

  void add(int64_t step, double value);
  // Returns the points, including an incomplete last one.
  [[nodiscard]] std::vector<Point> points() const;

 private:
  struct Bin {
    int64_t step = 0, count = 0;
    double sum = 0;
  };
  std::vector<Bin> bins_;
  int64_t width_ = 1;  // steps of a full bin
};

class MetricCurves {
 public:
  struct Metric {
    std::string name;
    bool is_share = false;
    MetricCurve training, evaluation;
  };

  // Returns the curves of that name, adding them if necessary. Valid until the next call.
  [[nodiscard]] Metric& of(std::string_view name, bool is_share);
  [[nodiscard]] const std::vector<Metric>& all() const { return all_; }

 private:
  std::vector<Metric> all_;
};

}  // namespace spillway
