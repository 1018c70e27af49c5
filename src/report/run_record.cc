#include "report/run_record.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/sizes.h"
#include "model/model.h"
#include "runtime/timeline.h"

namespace spillway {
namespace {

using LargestFirst = std::less<double>;
using SmallestFirst = std::greater<double>;

template <typename Order>
void push(std::vector<double>& heap, double number) {
  heap.push_back(number);
  std::push_heap(heap.begin(), heap.end(), Order());
}

template <typename Order>
double pop(std::vector<double>& heap) {
  std::pop_heap(heap.begin(), heap.end(), Order());
  const double front = heap.back();
  heap.pop_back();
  return front;
}

}  // namespace

std::vector<LossPoint> thinned(const std::vector<LossPoint>& curve, size_t points) {
  std::vector<LossPoint> result;
  const size_t bins = std::min(points, curve.size());
  for (size_t bin = 0; bin < bins; ++bin) {
    const size_t begin = curve.size() * bin / bins, end = curve.size() * (bin + 1) / bins;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += curve[i].loss;
    result.push_back({curve[end - 1].step, sum / static_cast<double>(end - begin)});
  }
  return result;
}

void RunningMedian::reserve(int64_t count) {
  for (std::vector<double>* half : {&lower_, &upper_}) {
    resize(*half, count / 2 + 1);
    half->clear();
  }
}

void RunningMedian::add(double number) {
  if (!lower_.empty() && number < lower_.front()) {
    push<LargestFirst>(lower_, number);
  } else {
    push<SmallestFirst>(upper_, number);
  }
  if (lower_.size() > upper_.size()) push<SmallestFirst>(upper_, pop<LargestFirst>(lower_));
  if (upper_.size() > lower_.size() + 1) push<LargestFirst>(lower_, pop<SmallestFirst>(upper_));
}

RunRecord::RunRecord(const Program& program, int64_t steps) {
  begin_program(program);
  // Touches the memory now, so that a long run does not grow page by page; bounded by the steps of a few days.
  constexpr int64_t kMaxTouched = int64_t{1} << 20;
  const int64_t touched = std::clamp<int64_t>(steps, 0, kMaxTouched);
  resize(losses_, touched);
  losses_.clear();
  step_seconds_.reserve(touched);
}

void RunRecord::begin_program(const Program& program) {
  trace_.assign(program.instructions.size(), {});
  newest_ = trace_;
  traced_step_ = 0;
}

void RunRecord::add_step(const train::StepRecord& step) {
  curves_.learning_rate.add(step.step, step.learning_rate);
  curves_.grad_norm.add(step.step, step.grad_norm);
  curves_.tokens_per_second.add(step.step, step.tokens_per_second);
  if (so_far_.steps == 0) so_far_.first_step = step.step - 1;
  ++so_far_.steps;
  so_far_.tokens += step.trained_tokens;
  so_far_.step_seconds_sum += step.step_seconds;
  so_far_.median_step_seconds = step_seconds_.value();
  for (const train::Metric& metric : step.metrics)
    if (metric.key == kExpertsReached) experts_reached_ = experts_reached_.value_or(0) + std::llround(metric.value);
}

void RunRecord::end_step(int64_t step, double loss, double seconds, const LaneProfile& lanes) {
  losses_.push_back({step, loss});
  stall_seconds_ += lanes.stall_seconds() - stall_before_;
  step_seconds_.add(seconds);
  const double median = step_seconds_.value();
  const bool is_nearer = std::abs(seconds - median) <= std::abs(traced_seconds_ - median);
  if (traced_step_ != 0 && !is_nearer) return;
  if (!read_trace(lanes, newest_)) return;
  std::swap(trace_, newest_);
  traced_step_ = step;
  traced_seconds_ = seconds;
}

}  // namespace spillway
