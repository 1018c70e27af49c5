#include "job/measure_job.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "infer/generation/cache_rows.h"
#include "job/generation_plan.h"
#include "job/online/round_forecast.h"
#include "runtime/machine_cache.h"
#include "runtime/measure_operations.h"

namespace spillway::train {
namespace {

using Fill = std::function<void(ValueId value, const TensorView& view, int64_t tokens)>;

bool is_other_rate(const TrainingGraph& training, ValueId id) {
  return std::any_of(training.other_rates.begin(), training.other_rates.end(),
                     [&](const OtherRate& one) { return one.value == id; });
}

// Fills batch values as in a training step: a stream of sequences of the usual length, each token of which is a target.
class TypicalValues {
 public:
  TypicalValues(const Job& job, const Model& model)
      : sequence_len_(job.graph.model.sequence_len),
        vocab_size_(model.text() ? model.text()->vocab_size : 0),
        text_tokens_(job.graph.model.text_tokens) {}

  void fill_training(const TrainingGraph& training, ValueId id, const TensorView& view, int64_t tokens) const {
    if (id == training.step) {
      *view.as<int32_t>() = 1;
    } else if (id == training.objective.scale) {
      *view.as<float>() = 1.0f / static_cast<float>(tokens);
    } else if (id == training.learning_rate || is_other_rate(training, id)) {
      *view.as<float>() = 1e-4f;
    } else {
      fill(training.graph, training.objective.columns, id, view, tokens);
    }
  }

  // Fills a batch value: either a column, or the seed of dropout.
  void fill(const Graph& graph, std::span<const BatchColumn> columns, ValueId id, const TensorView& view,
            int64_t tokens) const {
    for (const BatchColumn& column : columns) {
      if (column.value != id) continue;
      return column.column.fill_typical(view, {.tokens = tokens,
                                               .sequence_len = sequence_len_ > 0 ? sequence_len_ : tokens,
                                               .vocab_size = vocab_size_,
                                               .text_tokens = text_tokens_});
    }
    if (view.dtype != DType::kI64) report_bug(__FILE__, __LINE__, "column", graph.value(id).name);
    *view.as<int64_t>() = 1;
  }

 private:
  int64_t sequence_len_, vocab_size_, text_tokens_;
};

// Fills batch values of the programs that generate a round. Prompts are read one after the other; while decoding, half
// of each completion is there.
class TypicalRound {
 public:
  TypicalRound(const Job& job, const infer::GenerationSizes& sizes)
      : sizes_(sizes),
        vocab_size_(job.model->text()->vocab_size),
        completion_(job.config.online->completions.max_tokens),
        temperature_(job.config.online->completions.temperature),
        program_chooses_(!choosing_work(job, sizes.sequences)) {}

  void fill_decode(const infer::CachedGraph& decode, ValueId id, const TensorView& view) const {
    const infer::TokenChoice& choice = decode.choice;
    const auto fill_all = [&](float number) { std::fill_n(view.as<float>(), view.elems(), number); };
    const float factor = infer::inverse_temperature(temperature_);
    if (id == choice.barred) return (void)std::fill_n(view.as<int32_t>(), view.elems(), -1);
    if (id == choice.uniform) return fill_all(0.5f);
    if (id == choice.inverse_temperature) return fill_all(program_chooses_ ? factor : -1);
    if (id == choice.logprob_inverse_temperature) return fill_all(factor);
    const int64_t cached = sizes_.longest - completion_ / 2 - 1;
    fill(decode.model, id, view, [&](int64_t i) { return Token{i, cached}; });
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
      const int64_t number = id == model.positions ? token.position
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

// The graphs of all of a job's programs, with typical content; those of a round with the largest number of completions
// at once.
class JobGraphs {
 public:
  // Both are borrowed.
  JobGraphs(const Job& job, const TrainingGraph& training) : job_(job) {
    const TypicalValues typical(job, *job.model);
    add(training.graph, [typical, &training](ValueId id, const TensorView& view, int64_t tokens) {
      typical.fill_training(training, id, view, tokens);
    });
    if (!job.online) return;
    add_scores(training);
    add_generation(training);
  }
  JobGraphs(JobGraphs&&) = delete;

  [[nodiscard]] std::span<const MeasuredGraph> list() const { return list_; }
  // The number of completions at once, for a job that generates.
  [[nodiscard]] int64_t sequences() const { return generation_->sizes.sequences; }

 private:
  struct Generation {
    infer::GenerationSizes sizes;
    infer::GenerationGraphs graphs;
  };

  void add(const Graph& graph, Fill fill) { list_.push_back({.graph = &graph, .fill_batch = std::move(fill)}); }

  void add_columns(const Graph& graph, std::span<const BatchColumn> columns, const Model& model) {
    const TypicalValues typical(job_, model);
    add(graph, [typical, &graph, columns](ValueId id, const TensorView& view, int64_t tokens) {
      typical.fill(graph, columns, id, view, tokens);
    });
  }

  // Adds the programs that score completions before they are trained on.
  void add_scores(const TrainingGraph& training) {
    if (!job_.online->objective->passes().empty()) {
      scoring_ = build_scoring_graph(*job_.model, job_.graph, training);
      add_columns(scoring_->graph, scoring_->objective.columns, *job_.model);
    }
    for (size_t i = 0; i < job_.graph.beside.size(); ++i) {
      const ModelBeside& beside = job_.graph.beside[i];
      const RewardGraph& reward =
          rewards_.emplace_back(build_reward_graph(beside, job_.online->reward_models[i].room, training));
      add_columns(reward.graph, reward.model.columns, *beside.model);
    }
  }

  void add_generation(const TrainingGraph& training) {
    const infer::GenerationSizes sizes = generation_sizes_of(job_, job_.online->most_at_once);
    generation_ = {sizes, infer::build_generation_graphs(*job_.model, job_.graph.model, sizes, &training.graph)};
    const infer::GenerationGraphs& graphs = generation_->graphs;
    const TypicalRound round(job_, sizes);
    add(graphs.decode.graph,
        [round, &graphs](ValueId id, const TensorView& view, int64_t) { round.fill_decode(graphs.decode, id, view); });
    add(graphs.prompt.graph, [round, &graphs](ValueId id, const TensorView& view, int64_t) {
      round.fill_prompt(graphs.prompt.model, id, view);
    });
  }

  const Job& job_;
  std::optional<ScoringGraph> scoring_;
  std::deque<RewardGraph> rewards_;
  std::optional<Generation> generation_;
  std::vector<MeasuredGraph> list_;
};

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
  const JobGraphs graphs(job, training);
  bool is_new = measure_operations(graphs.list(), options_for(job, device, std::move(on_progress)), machine) > 0;
  const std::optional<infer::ChoosingWork> choosing =
      job.online ? choosing_work(job, graphs.sequences()) : std::nullopt;
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
