#include "train/session.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "plan/verify.h"

namespace spillway::train {
namespace {

void check(const std::vector<std::string>& violations) {
  SPILLWAY_CHECK(violations.empty(), "the plan's program is wrong: {}", violations.front());
}

// All that run in the session's memory, each of them verified.
std::vector<const Program*> checked_programs(const PlannedJob& planned) {
  const std::vector<JobProgram> programs = programs_of(planned);
  std::vector<const Program*> result;
  for (const JobProgram& program : programs) {
    check(verify(*program.graph, program.plan->program, planned.context.budget));
    for (const JobProgram* before = programs.data(); before != &program; ++before)
      check(verify_shared_homes(*before->graph, before->plan->program, *program.graph, program.plan->program));
    result.push_back(&program.plan->program);
  }
  return result;
}

template <typename T>
void set_scalar(const TensorView& view, T value) {
  *view.as<T>() = value;
}

void fill(Executor& executor, const StreamInputs& in, const AppendedObjective& objective, const Stream& stream,
          float scale) {
  executor.set_tokens(static_cast<int64_t>(stream.ids.size()));
  const auto copy = [&](std::span<const int32_t> from, ValueId to) {
    std::copy(from.begin(), from.end(), executor.home(to).as<int32_t>());
  };
  copy(stream.ids, in.ids);
  copy(stream.positions, in.positions);
  for (size_t i = 0; i < objective.columns.size(); ++i)
    copy(stream.column(objective.objective->columns[i].name), objective.columns[i]);
  const TensorView offsets = executor.home(in.seq_offsets);
  SPILLWAY_CHECK(static_cast<int64_t>(stream.seq_offsets.size()) <= offsets.elems(), "{} sequences in a plan for {}",
                 stream.seq_offsets.size() - 1, offsets.elems() - 1);
  copy(stream.seq_offsets, in.seq_offsets);
  std::fill(offsets.as<int32_t>() + stream.seq_offsets.size(), offsets.as<int32_t>() + offsets.elems(),
            static_cast<int32_t>(stream.ids.size()));
  set_scalar(executor.home(objective.scale), scale);
}

double number(const TensorView& view) {
  return view.dtype == DType::kI32 ? static_cast<double>(*view.as<int32_t>()) : *view.as<float>();
}

}  // namespace

std::span<const int32_t> Stream::column(std::string_view name) const {
  SPILLWAY_CHECK(name == "labels", "rows have no column {}", name);
  return labels;
}

TrainingSession::TrainingSession(const Job& job, const PlannedJob& planned, ThreadPool& pool,
                                 const ExecutorOptions& options)
    : job_(job),
      planned_(planned),
      pool_(pool),
      seed_(static_cast<uint64_t>(job.config.seed)),
      options_(options),
      memory_(checked_programs(planned), pool, options.tiers),
      executor_(planned.training.graph, planned.plan.program, memory_, options) {}

void TrainingSession::begin_step(double learning_rate, int64_t step) {
  step_ = step;
  set_scalar(home(training().learning_rate), static_cast<float>(learning_rate));
  set_scalar(home(training().step), static_cast<int32_t>(step + 1));
}

double TrainingSession::micro_step(const Stream& stream, float scale, int64_t micro_step) {
  // 62 bits, since a negative seed switches dropout off.
  const auto bits = philox(seed_, static_cast<uint64_t>(step_), static_cast<uint64_t>(micro_step));
  const TrainingGraph& t = training();
  fill(executor_, t.decoder.inputs, t.objective, stream, scale);
  if (const ValueId seed = t.decoder.inputs.dropout_seed; seed != kNone)
    set_scalar(home(seed), static_cast<int64_t>(((uint64_t{bits[0]} << 32) | bits[1]) >> 2));
  executor_.run(t.forward);
  const double result = number(executor_.result(t.objective.loss_result));
  executor_.run(t.backward);
  return result;
}

double TrainingSession::update() {
  executor_.run(training().update);
  return number(executor_.result(training().norm_result));
}

Evaluation TrainingSession::evaluate(const Stream& stream) {
  const auto& [graph, inputs, objective] = planned_.evaluation.graph;
  if (!evaluation_) evaluation_.emplace(graph, planned_.evaluation.plan.program, memory_, options_);
  fill(*evaluation_, inputs, objective, stream, 1.0f);
  evaluation_->run(0);
  Evaluation result{.loss = number(evaluation_->result(objective.loss_result))};
  for (size_t i = 1; i <= objective.sums; ++i)
    result.sums.push_back(number(evaluation_->result(objective.loss_result + i)));
  return result;
}

std::vector<Generated> TrainingSession::sample() {
  const auto& [graphs, decode, prompt] = *planned_.samples;
  if (!decode_) {
    decode_.emplace(graphs.decode.graph, decode.program, memory_, options_);
    prompt_.emplace(graphs.prompt.graph, prompt.program, memory_, options_);
  }
  return generate(
      {graphs, *decode_, *prompt_, pool_}, job_.samples.prompts,
      {.stop_ids = job_.samples.tokenizer->stop_ids(), .repetition_penalty = job_.model.repetition_penalty});
}

}  // namespace spillway::train
