#include "job/measure_job.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "infer/generation/cache_rows.h"
#include "job/online/round_forecast.h"
#include "job/programs.h"
#include "runtime/machine_cache.h"
#include "runtime/measure_operations.h"

namespace spillway::train {
namespace {

using Fill = std::function<void(ValueId value, const TensorView& view, int64_t tokens)>;

bool is_other_rate(const TrainingGraph& training, ValueId id) {
  return std::any_of(training.other_rates.begin(), training.other_rates.end(),
                     [&](const OtherRate& one) { return one.value == id; });
}

bool is_step(const TrainingGraph& training, ValueId id) {
  const std::vector<ValueId>& of_layers = training.layer_steps;
  return id == training.step || std::find(of_layers.begin(), of_layers.end(), id) != of_layers.end();
}

bool is_weight_of_loss(const TrainingGraph& training, ValueId id) {
  return std::any_of(training.group.begin(), training.group.end(),
                     [&](const MicroBatchValues& v) { return v.scale == id || v.router_loss_weight == id; });
}

// Returns the columns of the micro-batch that has the value as one; those of the first if none has.
const std::vector<BatchColumn>& columns_with(const TrainingGraph& training, ValueId id) {
  for (const MicroBatchValues& values : training.group)
    for (const BatchColumn& column : values.columns)
      if (column.value == id) return values.columns;
  return training.objective.columns;
}

// Fills batch values as in a training step: a stream of sequences of the usual length, each token of which is a target.
class TypicalValues {
 public:
  TypicalValues(const Job& job, const Model& model)
      : sequence_len_(job.graph.model.sequence_len),
        vocab_size_(model.text() ? model.text()->vocab_size : 0),
        text_tokens_(job.graph.model.text_tokens),
        context_ranks_(job.graph.model.context_ranks) {}

  void fill_training(const TrainingGraph& training, ValueId id, const TensorView& view, int64_t tokens) const {
    if (is_step(training, id)) {
      *view.as<int32_t>() = 1;
    } else if (is_weight_of_loss(training, id)) {
      *view.as<float>() = 1.0f / static_cast<float>(tokens);
    } else if (id == training.learning_rate || is_other_rate(training, id)) {
      *view.as<float>() = 1e-4f;
    } else {
      fill(training.graph, columns_with(training, id), id, view, tokens);
    }
  }

  // Fills a batch value: either a column, or the seed of dropout.
  void fill(const Graph& graph, std::span<const BatchColumn> columns, ValueId id, const TensorView& view,
            int64_t tokens) const {
    for (const BatchColumn& column : columns) {
      if (column.value != id) continue;
      const bool is_of_stream = column.column.name == kSeqOffsets.name;  // of all rows, also where ranks share them
      return column.column.fill_typical(view, {.tokens = is_of_stream ? context_ranks_ * tokens : tokens,
                                               .sequence_len = sequence_len_ > 0 ? sequence_len_ : tokens,
                                               .vocab_size = vocab_size_,
                                               .text_tokens = text_tokens_});
    }
    if (view.dtype != DType::kI64) report_bug(__FILE__, __LINE__, "column", graph.value(id).name);
    *view.as<int64_t>() = 1;
  }

 private:
  int64_t sequence_len_, vocab_size_, text_tokens_, context_ranks_;
};

// Fills batch values of the programs that generate a round. Prompts are read one after the other; while decoding, half
// of each completion is there.
class TypicalRound {
 public:
  TypicalRound(const Job& job, const infer::GenerationSizes& sizes)
      : sizes_(sizes),
        vocab_size_(job.model->text()->vocab_size),
        completion_(job.kind->generation(job).completions->max_tokens),
        temperature_(job.kind->generation(job).completions->temperature),
        program_chooses_(!choosing_work(job, sizes.sequences)) {}

  void fill_decode(const JobProgram& decode, ValueId id, const TensorView& view) const {
    const infer::TokenChoice& choice = decode.choice;
    const auto fill_all = [&](float number) { std::fill_n(view.as<float>(), view.elems(), number); };
    const float factor = infer::inverse_temperature(temperature_);
    if (id == choice.barred) return (void)std::fill_n(view.as<int32_t>(), view.elems(), -1);
    if (id == choice.uniform) return fill_all(0.5f);
    if (id == choice.inverse_temperature) return fill_all(program_chooses_ ? factor : -1);
    if (id == choice.logprob_inverse_temperature) return fill_all(factor);
    const int64_t cached = sizes_.longest - completion_ / 2 - 1;
    fill(decode.cached, id, view, [&](int64_t i) { return Token{i, cached}; });
  }

  void fill_prompt(const CachedModelGraph& model, ValueId id, const TensorView& view) const {
    const int64_t least = div_ceil(sizes_.prompt_tokens, sizes_.sequences);
    const int64_t prompt = std::max(least, sizes_.longest - completion_);
    fill(model, id, view, [&](int64_t i) { return Token{i / prompt, i % prompt}; });
  }

 private:
  struct Token {
    int64_t sequence, position;
  };

  template <typename TokenOf>
  void fill(const CachedModelGraph& model, ValueId id, const TensorView& view, const TokenOf& token_of) const {
    if (id == model.ids) return fill_typical_ids(view, {.vocab_size = vocab_size_});
    for (int64_t i = 0; i < view.elems(); ++i) {
      const Token token = token_of(i);
      const int64_t first = token.sequence * infer::CacheRows::rows_for(sizes_.longest);
      const bool is_slot = id == model.slots || id == model.copied_slots;
      const int64_t number = id == model.positions ? token.position
                             : is_slot             ? token.sequence
                             : id == model.first   ? first
                                                   : first + token.position;
      view.as<int32_t>()[i] = narrow<int32_t>(number);
    }
  }

  infer::GenerationSizes sizes_;
  int64_t vocab_size_, completion_;
  double temperature_;
  bool program_chooses_;
};

infer::GenerationSizes round_sizes(const Job& job) {
  return generation_sizes_of(job, job.kind->generation(job).at_once);
}

// Returns what fills a program of a round with typical content. Borrows the program.
Fill typical_fill(const Job& job, const JobProgram& program) {
  if (!program.generates()) {
    return
        [typical = TypicalValues(job, *program.model), &program](ValueId id, const TensorView& view, int64_t tokens) {
          typical.fill(program.graph, program.objective.columns, id, view, tokens);
        };
  }
  const TypicalRound round(job, round_sizes(job));
  if (program.kind == JobProgram::Kind::kDecode)
    return [round, &program](ValueId id, const TensorView& view, int64_t) { round.fill_decode(program, id, view); };
  return
      [round, &program](ValueId id, const TensorView& view, int64_t) { round.fill_prompt(program.cached, id, view); };
}

// Returns the programs of a round, with the largest number of completions at once.
std::vector<JobProgram> round_programs(const Job& job, const TrainingGraph& training) {
  if (job.kind->generation(job).at_once == 0) return {};
  std::vector<JobProgram> programs = row_programs(job, training);
  for (JobProgram& program : generation_programs(job, training, round_sizes(job)))
    programs.push_back(std::move(program));
  std::erase_if(programs, [](const JobProgram& program) { return program.kind == JobProgram::Kind::kEvaluation; });
  return programs;
}

// Uses no more memory than the job may.
OperationMeasureOptions options_for(const Job& job, Device& device,
                                    std::function<void(int64_t done, int64_t of)> on_progress) {
  OperationMeasureOptions options{
      .device = &device, .sequence_len = job.graph.model.sequence_len, .on_progress = std::move(on_progress)};
  if (!device.shares_host_memory()) options.memory_bytes = device.free_bytes() / 4;
  if (job.budget.device) options.memory_bytes = std::min(options.memory_bytes, *job.budget.device);
  return options;
}

}  // namespace

void measure_job(const Job& job, const TrainingGraph& training, Machine& machine, Device& device,
                 std::function<void(int64_t done, int64_t of)> on_progress) {
  const std::vector<JobProgram> programs = round_programs(job, training);
  std::vector<MeasuredGraph> graphs = {{&training.graph, [typical = TypicalValues(job, *job.model), &training](
                                                             ValueId id, const TensorView& view, int64_t tokens) {
                                          typical.fill_training(training, id, view, tokens);
                                        }}};
  for (const JobProgram& program : programs) graphs.push_back({&program.graph, typical_fill(job, program)});
  bool is_new = measure_operations(graphs, options_for(job, device, std::move(on_progress)), machine) > 0;
  std::optional<infer::ChoosingWork> choosing;
  if (!programs.empty()) choosing = choosing_work(job, round_sizes(job).sequences);
  if (choosing) is_new |= infer::measure_choosing(*choosing, machine);
  if (!is_new) return;
  // Another run may have written to the cache since this one read it.
  Machine known = cached_machine(device).value_or(machine);
  for (const auto& [signature, seconds] : machine.operations) {
    const auto [entry, is_first] = known.operations.try_emplace(signature, seconds);
    if (!is_first && entry->second.is_provisional()) entry->second = seconds;
  }
  known.algorithms.insert(machine.algorithms.begin(), machine.algorithms.end());
  cache_machine(known, device);
}

}  // namespace spillway::train
