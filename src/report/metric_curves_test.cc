#include "report/metric_curves.h"

#include <doctest/doctest.h>

using namespace spillway;

TEST_CASE("a curve of a metric has every step while they are few, and means over equally many when they are not") {
  MetricCurve curve;
  for (int64_t step = 1; step <= 1024; ++step) curve.add(step, static_cast<double>(step));
  REQUIRE(curve.points().size() == 1024);
  CHECK(curve.points()[7].step == 8);
  CHECK(curve.points()[7].value == 8);
  for (int64_t step = 1025; step <= 5000; ++step) curve.add(step, static_cast<double>(step));
  const auto points = curve.points();
  CHECK(points.size() <= MetricCurve::kMaxPoints);
  CHECK(points.size() >= MetricCurve::kMaxPoints / 2);
  int64_t before = 0;
  for (const MetricCurve::Point& point : points) {
    // The mean of the numbers before + 1, ..., step.
    CHECK(point.value == doctest::Approx(static_cast<double>(before + 1 + point.step) / 2));
    before = point.step;
  }
  CHECK(before == 5000);
}

TEST_CASE("metrics have curves by their names, in the order of their first numbers") {
  MetricCurves curves;
  curves.of("rewards/margins", false).training.add(1, 0.5);
  curves.of("rewards/accuracies", true).evaluation.add(1, 1);
  curves.of("rewards/margins", false).training.add(2, 0.75);
  REQUIRE(curves.all().size() == 2);
  CHECK(curves.all()[0].name == "rewards/margins");
  CHECK(curves.all()[0].training.points().size() == 2);
  CHECK(curves.all()[1].is_share);
}
