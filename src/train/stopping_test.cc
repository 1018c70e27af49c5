#include "train/stopping.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

using namespace spillway;
using namespace spillway::train;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

config::OutputSettings patient(int64_t patience, bool greater = false, std::string metric = "loss") {
  config::OutputSettings output;
  output.best = {.metric = std::move(metric),
                 .greater_is_better = greater,
                 .is_kept = true,
                 .is_loaded = true,
                 .patience = patience};
  return output;
}

void evaluate(Stopping& stopping, int64_t step, double value, std::string_view key = "loss") {
  const std::vector<Metric> metrics = {{"other", 1}, {key, value}};
  stopping.add_evaluation(step, metrics);
}

// The results of transformers' Trainer with EarlyStoppingCallback(patience), computed anew from its definition: the
// number of the evaluation after which it ends, 0 for never, and the best value.
struct Reference {
  size_t stop = 0;
  double best = 0;
};
Reference by_definition(const std::vector<double>& values, int64_t patience, bool greater) {
  Reference result;
  bool has_best = false;
  int64_t counter = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool better = has_best && (greater ? values[i] > result.best : values[i] < result.best);
    counter = !has_best || (better && std::abs(values[i] - result.best) > 0) ? 0 : counter + 1;
    if (!has_best) result.best = greater ? -INFINITY : INFINITY;
    has_best = true;
    if (greater ? values[i] > result.best : values[i] < result.best) result.best = values[i];
    if (counter >= patience) {
      result.stop = i + 1;
      break;
    }
  }
  return result;
}

}  // namespace

TEST_CASE("a run ends after as many evaluations without a better one as in transformers") {
  const std::vector<std::vector<double>> runs = {
      {3, 2, 1},      {1, 2, 3, 4}, {2, 2, 2, 2}, {3, 1, 2, 0.5, 2, 2, 2}, {kNan, kNan, 1, 2, 3}, {1, kNan, kNan, 0.5},
      {5, 4, 4, 4, 3}};
  for (const auto& values : runs) {
    for (const bool greater : {false, true}) {
      for (const int64_t patience : {1, 2, 3}) {
        CAPTURE(patience);
        Stopping stopping(patient(patience, greater));
        size_t stop = 0;
        for (size_t i = 0; i < values.size() && stop == 0; ++i) {
          evaluate(stopping, static_cast<int64_t>(i + 1) * 10, values[i]);
          if (stopping.stops()) stop = i + 1;
        }
        const Reference expected = by_definition(values, patience, greater);
        CHECK(stop == expected.stop);
        if (std::isfinite(expected.best)) CHECK(stopping.state().best.value == expected.best);
      }
    }
  }
}

TEST_CASE("a run that goes on counts on") {
  const std::vector<double> values = {3, 1, 2, 2, 2};
  for (size_t cut = 0; cut <= values.size(); ++cut) {
    Stopping whole(patient(3)), first(patient(3));
    for (size_t i = 0; i < values.size(); ++i) evaluate(whole, static_cast<int64_t>(i + 1), values[i]);
    for (size_t i = 0; i < cut; ++i) evaluate(first, static_cast<int64_t>(i + 1), values[i]);
    Stopping second(patient(3));
    second.restore(stopping_from_json(to_json(first.state())));
    for (size_t i = cut; i < values.size(); ++i) evaluate(second, static_cast<int64_t>(i + 1), values[i]);
    CHECK(second.state() == whole.state());
    CHECK(second.stops());
  }
}

TEST_CASE("what a checkpoint says of another metric does not count") {
  Stopping first(patient(1, true, "accuracy")), second(patient(1));
  evaluate(first, 5, 0.9, "accuracy");
  evaluate(first, 6, 0.8, "accuracy");
  CHECK(first.stops());
  second.restore(first.state());
  CHECK_FALSE(second.stops());
  CHECK(second.state().best.step == 0);
}

TEST_CASE("a run ends with the best of the checkpoints that stand at an evaluation, unless it is itself the best") {
  Stopping stopping(patient(9));
  CHECK(stopping.step_to_load(0) == 0);
  evaluate(stopping, 5, 1.0);  // no checkpoint
  evaluate(stopping, 10, 2.0);
  stopping.add_checkpoint(10);
  stopping.add_checkpoint(12);  // of an interrupt: no evaluation
  evaluate(stopping, 20, 3.0);
  stopping.add_checkpoint(20);
  CHECK(stopping.state().best == JudgedEvaluation{5, 1.0});
  CHECK(stopping.step_to_load(20) == 10);
  CHECK(stopping.step_to_load(10) == 0);
  evaluate(stopping, 25, 0.5);
  CHECK(stopping.step_to_load(25) == 0);
  CHECK(stopping.is_best(25));
  CHECK_FALSE(stopping.is_best(20));
}

TEST_CASE("steps in a row with a high loss end a run, and a lower one between them does not") {
  config::OutputSettings output;
  output.loss_watchdog = config::LossWatchdog{.threshold = 5, .patience = 2};
  Stopping stopping(output);
  for (const double loss : {6.0, 5.0, 6.0}) stopping.add_loss(loss);
  CHECK_FALSE(stopping.stops());
  Stopping second(output);
  second.restore(stopping_from_json(to_json(stopping.state())));
  second.add_loss(7);
  CHECK(second.reason() == "loss_watchdog_threshold: the loss of 2 steps in a row was above 5");
}

TEST_CASE("a metric that the evaluation does not have is named, with those that it has") {
  Stopping stopping(patient(1, true, "f1"));
  CHECK_THROWS_WITH_AS(evaluate(stopping, 1, 2),
                       "[metric_for_best_model] expected one of the evaluation's numbers (other or loss), got 'f1'; "
                       "name one of them",
                       InputError);
  Stopping unasked{config::OutputSettings{}};
  evaluate(unasked, 1, 2, "reward");
  CHECK(unasked.state().best.step == 0);
}
