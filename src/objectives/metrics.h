// Metrics that are reported beside the loss: numbers collected over the micro-batches of a step, or over an evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"

namespace spillway::train {

// A number of a step or an evaluation. The key is a constant, or belongs to the feed that made it and lives as long.
struct Metric {
  std::string_view key;  // in metrics.jsonl, "rewards/chosen"; an evaluation puts "eval_" before it
  double value = 0;
  bool is_share = false;  // shown in percent
};

// A metric that owns its key, for use after the feed is gone.
struct KeptMetric {
  std::string key;
  double value = 0;
  bool is_share = false;
};
[[nodiscard]] std::vector<KeptMetric> kept(std::span<const Metric> metrics);

// Weighted means by key.
class MetricSums {
 public:
  // The arguments of a call of add().
  struct Entry {
    Metric mean;
    double weight = 0;
  };

  // Adds the mean of something over `weight` rows, tokens or micro-batches. A weight of 0 adds nothing. The key must
  // outlive this object.
  void add(const Metric& mean, double weight = 1);
  void add(std::string_view key, double mean, double weight = 1) { add({key, mean}, weight); }
  void add_share(std::string_view key, double share, double weight = 1) { add({key, share, true}, weight); }
  // Appends the means to `into`, in the order in which their keys were first added. Skips keys without any weight.
  void means(std::vector<Metric>& into) const;
  // Returns the mean of a key; 0 if there is none.
  [[nodiscard]] double mean(std::string_view key) const;
  // Returns the sum of a key, each number times its weight; 0 if there is none.
  [[nodiscard]] double sum(std::string_view key) const;
  // Clears the sums. The keys stay, so that adding to them again allocates nothing.
  void clear();
  // Makes add() append what it is given to `entries`, too; null: no longer. Borrows them.
  void record(std::vector<Entry>* entries) { entries_ = entries; }

 private:
  struct Sum {
    std::string_view key;
    double sum = 0, weight = 0;
    bool is_share = false;
  };
  [[nodiscard]] const Sum* find(std::string_view key) const;

  std::vector<Sum> sums_;
  std::vector<Entry>* entries_ = nullptr;
};

// The results of a micro-batch that ran.
struct Observation {
  double loss = 0;                              // of a scale of one
  std::span<const std::vector<double>> values;  // Loss::observed
  std::span<const data::MicroBatch> streams;    // that it was made of
  int64_t rows = 0;                             // of the data

  [[nodiscard]] double number(size_t value, int64_t row = 0) const;
  // Returns row `row` of a column of numbers in the first stream.
  [[nodiscard]] double column(std::string_view name, int64_t row) const;
  // Returns the mean of f(row) over the rows.
  [[nodiscard]] double mean(const std::function<double(int64_t row)>& f) const;
};

}  // namespace spillway::train
