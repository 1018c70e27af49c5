// What is reported of a loss beside itself: numbers that are collected over the micro-batches of a step, or over an
// evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"

namespace spillway::train {

// One number of a step or an evaluation. The key is a constant, or that of the feed which names it, and lives as long.
struct Metric {
  std::string_view key;  // in metrics.jsonl, "rewards/chosen"; an evaluation puts "eval_" before it
  double value = 0;
  bool is_share = false;  // shown in percent
};

// The same with a name of its own: of what is told after the feed is gone.
struct KeptMetric {
  std::string key;
  double value = 0;
  bool is_share = false;
};
[[nodiscard]] std::vector<KeptMetric> kept(std::span<const Metric> metrics);

// Weighted means under names.
class MetricSums {
 public:
  // Adds a mean over `weight` of something: rows, tokens, micro-batches. A weight of 0 adds nothing. Its key outlives
  // this.
  void add(const Metric& mean, double weight = 1);
  void add(std::string_view key, double mean, double weight = 1) { add({key, mean}, weight); }
  void add_share(std::string_view key, double share, double weight = 1) { add({key, share, true}, weight); }
  // In the order in which they were first added, over what `into` held; those without any weight are left out.
  void means(std::vector<Metric>& into) const;
  // 0 where there is none.
  [[nodiscard]] double mean(std::string_view key) const;
  // The names stay, so that adding to them again takes no memory.
  void clear();

 private:
  struct Sum {
    std::string_view key;
    double sum = 0, weight = 0;
    bool is_share = false;
  };
  std::vector<Sum> sums_;
};

// What ran of a micro-batch.
struct Observation {
  double loss = 0;                              // of a scale of one
  std::span<const std::vector<double>> values;  // Loss::observed
  std::span<const data::MicroBatch> streams;    // that it was made of
  int64_t rows = 0;                             // of the data

  [[nodiscard]] double number(size_t value, int64_t row = 0) const;
  // Of a column of numbers of the first stream.
  [[nodiscard]] double column(std::string_view name, int64_t row) const;
  // The mean over the rows of f(row).
  [[nodiscard]] double mean(const std::function<double(int64_t row)>& f) const;
};

}  // namespace spillway::train
