#include "train/measure_job.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/machine_cache.h"
#include "runtime/measure_operations.h"

namespace spillway::train {
namespace {

// Content for batch values like that of a training step: a stream of sequences of the usual length, each token of which
// is a target.
class TypicalValues {
 public:
  TypicalValues(const Job& job, const TrainingGraph& training)
      : training_(training),
        sequence_len_(job.graph.model.sequence_len),
        vocab_size_(job.model->text() ? job.model->text()->vocab_size : 0),
        text_tokens_(job.graph.model.text_tokens) {}

  void fill(ValueId id, const TensorView& view, int64_t tokens) const {
    if (id == training_.step) {
      *view.as<int32_t>() = 1;
    } else if (id == training_.model.dropout_seed) {
      *view.as<int64_t>() = 1;
    } else if (id == training_.objective.scale) {
      *view.as<float>() = 1.0f / static_cast<float>(tokens);
    } else if (id == training_.learning_rate || id == training_.loraplus_rate) {
      *view.as<float>() = 1e-4f;
    } else {
      column_of(id).fill_typical(view, {.tokens = tokens,
                                        .sequence_len = sequence_len_ > 0 ? sequence_len_ : tokens,
                                        .vocab_size = vocab_size_,
                                        .text_tokens = text_tokens_});
    }
  }

 private:
  [[nodiscard]] const Column& column_of(ValueId id) const {
    for (const BatchColumn& column : training_.objective.columns)
      if (column.value == id) return column.column;
    report_bug(__FILE__, __LINE__, "column", training_.graph.value(id).name);
  }

  const TrainingGraph& training_;
  int64_t sequence_len_, vocab_size_, text_tokens_;
};

}  // namespace

void measure_job(const Job& job, const TrainingGraph& training, Machine& machine, Device& device,
                 std::function<void(int64_t done, int64_t of)> on_progress) {
  const TypicalValues batch(job, training);
  OperationMeasureOptions options{.device = &device};
  options.fill_batch = [&](ValueId id, const TensorView& view, int64_t tokens) { batch.fill(id, view, tokens); };
  options.on_progress = std::move(on_progress);
  options.sequence_len = job.graph.model.sequence_len;
  if (!device.shares_host_memory()) options.memory_bytes = device.free_bytes() / 4;
  if (job.budget.device) options.memory_bytes = std::min(options.memory_bytes, *job.budget.device);
  if (measure_operations(training.graph, options, machine) == 0) return;
  // Another run may have written there since this one read it.
  Machine known = cached_machine(device).value_or(machine);
  for (const auto& [signature, seconds] : machine.operations) {
    const auto [entry, is_new] = known.operations.try_emplace(signature, seconds);
    if (!is_new && entry->second.is_provisional()) entry->second = seconds;
  }
  known.algorithms.insert(machine.algorithms.begin(), machine.algorithms.end());
  cache_machine(known, device);
}

}  // namespace spillway::train
