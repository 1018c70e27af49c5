#include "train/session.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "plan/verify.h"

namespace spillway::train {
namespace {

const Program& checked_program(const PlannedJob& planned) {
  const std::vector<std::string> violations =
      verify(planned.training.graph, planned.plan.program, planned.context.budget);
  SPILLWAY_CHECK(violations.empty(), "the plan's program is wrong: {}", violations.front());
  return planned.plan.program;
}

template <typename T>
void set_scalar(const TensorView& view, T value) {
  *view.as<T>() = value;
}

}  // namespace

TrainingSession::TrainingSession(const Job& job, const PlannedJob& planned, ThreadPool& pool,
                                 const ExecutorOptions& options)
    : planned_(planned),
      seed_(static_cast<uint64_t>(job.config.seed)),
      executor_(planned.training.graph, checked_program(planned), pool, options) {}

void TrainingSession::fill(const Stream& stream, float scale, int64_t dropout_seed) {
  const TrainingGraph& t = training();
  const StreamInputs& in = t.decoder.inputs;
  executor_.set_tokens(static_cast<int64_t>(stream.ids.size()));
  const auto copy = [&](std::span<const int32_t> from, ValueId to) {
    std::copy(from.begin(), from.end(), home(to).as<int32_t>());
  };
  copy(stream.ids, in.ids);
  copy(stream.labels, t.labels);
  copy(stream.positions, in.positions);
  const TensorView offsets = home(in.seq_offsets);
  SPILLWAY_CHECK(static_cast<int64_t>(stream.seq_offsets.size()) <= offsets.elems(), "{} sequences in a plan for {}",
                 stream.seq_offsets.size() - 1, offsets.elems() - 1);
  copy(stream.seq_offsets, in.seq_offsets);
  std::fill(offsets.as<int32_t>() + stream.seq_offsets.size(), offsets.as<int32_t>() + offsets.elems(),
            static_cast<int32_t>(stream.ids.size()));
  set_scalar(home(t.loss_scale), scale);
  if (in.dropout_seed != kNone) set_scalar(home(in.dropout_seed), dropout_seed);
}

double TrainingSession::loss() const { return *executor_.result(training().loss_result).as<float>(); }

void TrainingSession::begin_step(double learning_rate, int64_t step) {
  step_ = step;
  set_scalar(home(training().learning_rate), static_cast<float>(learning_rate));
  set_scalar(home(training().step), static_cast<int32_t>(step + 1));
}

double TrainingSession::micro_step(const Stream& stream, float scale, int64_t micro_step) {
  // 62 bits, since a negative seed switches dropout off.
  const auto bits = philox(seed_, static_cast<uint64_t>(step_), static_cast<uint64_t>(micro_step));
  fill(stream, scale, static_cast<int64_t>(((uint64_t{bits[0]} << 32) | bits[1]) >> 2));
  executor_.run(training().forward);
  const double result = loss();
  executor_.run(training().backward);
  return result;
}

double TrainingSession::update() {
  executor_.run(training().update);
  return *executor_.result(training().norm_result).as<float>();
}

Evaluation TrainingSession::evaluate(const Stream& stream) {
  fill(stream, 1.0f, -1);
  executor_.run(training().forward);
  return {loss(), *executor_.result(training().correct_result).as<int32_t>()};
}

}  // namespace spillway::train
