#include "train/measure_job.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "runtime/machine_cache.h"
#include "runtime/measure_operations.h"

namespace spillway::train {
namespace {

// Content for batch values like that of a training step: a stream of sequences of the usual length, each token of which
// is a target.
class TypicalBatch {
 public:
  TypicalBatch(const Job& job, const TrainingGraph& training) : job_(job), training_(training) {}

  void fill(ValueId id, const TensorView& view, int64_t tokens) const {
    const StreamInputs& in = training_.decoder.inputs;
    const int64_t usual = job_.graph.decoder.sequence_len, length = usual > 0 ? usual : tokens;
    const std::vector<ValueId>& columns = training_.objective.columns;
    if (id == in.ids || std::find(columns.begin(), columns.end(), id) != columns.end()) {
      RandomStream random(1, 0);
      const auto vocabulary = static_cast<uint32_t>(job_.model.vocab_size);
      fill_with<int32_t>(view, [&](int64_t) { return static_cast<int32_t>(random.below(vocabulary)); });
    } else if (id == in.positions) {
      fill_with<int32_t>(view, [&](int64_t i) { return static_cast<int32_t>(i % length); });
    } else if (id == in.seq_offsets) {
      fill_with<int32_t>(view, [&](int64_t i) {
        return static_cast<int32_t>(i + 1 == view.elems() ? tokens : std::min(i * length, tokens));
      });
    } else if (id == training_.step) {
      *view.as<int32_t>() = 1;
    } else if (id == in.dropout_seed) {
      *view.as<int64_t>() = 1;
    } else if (id == training_.objective.scale) {
      *view.as<float>() = 1.0f / static_cast<float>(tokens);
    } else {
      SPILLWAY_CHECK(id == training_.learning_rate, "{}", training_.graph.value(id).name);
      *view.as<float>() = 1e-4f;
    }
  }

 private:
  template <typename T, typename Element>
  static void fill_with(const TensorView& view, const Element& element) {
    for (int64_t i = 0; i < view.elems(); ++i) view.as<T>()[i] = element(i);
  }

  const Job& job_;
  const TrainingGraph& training_;
};

}  // namespace

void measure_job(const Job& job, const TrainingGraph& training, Machine& machine, Device& device,
                 std::function<void(int64_t done, int64_t of)> on_progress) {
  const TypicalBatch batch(job, training);
  OperationMeasureOptions options{.device = &device};
  options.fill_batch = [&](ValueId id, const TensorView& view, int64_t tokens) { batch.fill(id, view, tokens); };
  options.on_progress = std::move(on_progress);
  options.sequence_len = job.graph.decoder.sequence_len;
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
