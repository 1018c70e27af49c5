#include "train/measure_job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "plan/signature.h"
#include "runtime/machine_cache.h"
#include "runtime/measure_operations.h"
#include "tests/support/cache_folder.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

int64_t signatures_of(const Graph& graph) {
  std::set<std::string> signatures;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) signatures.insert(signature_of(graph, op));
  return std::ssize(signatures);
}

}  // namespace

TEST_CASE("every operation of a training graph is measured once, and no job's numbers are needed for it") {
  const CacheFolder cache;
  for (const bool lora : {false, true}) {
    CAPTURE(lora);
    const train::Job job =
        tiny_job(kGoldenModels / "llama2", {.adapter = lora ? "adapter" : "", .dtype = DType::kBF16, .dropout = 0.1});
    const train::TrainingGraph training = train::build_training_graph(job.model, job.graph);
    Machine machine{.threads = 2};
    train::measure_job(job, training, machine);
    CHECK(std::ssize(machine.operations) == signatures_of(training.graph));
    for (const auto& [signature, seconds] : machine.operations) {
      CAPTURE(signature);
      CHECK(seconds.compute > 0);
      CHECK(seconds.compute < 1);
      const bool updates = signature.starts_with("adamw") || signature.starts_with("squared_norm");
      if (updates) CHECK(seconds.host > 0);
    }
    const auto before = machine.operations;
    train::measure_job(job, training, machine);
    CHECK(machine.operations == before);
  }
}

TEST_CASE("scratch memory is bounded: what needs more works on fewer rows or is left out") {
  const train::Job job = tiny_job(kGoldenModels / "llama2", {.dtype = DType::kBF16});
  const Graph graph = train::build_training_graph(job.model, job.graph).graph;
  OperationMeasureOptions options;
  options.fill_batch = [](ValueId, const TensorView& view, int64_t) {
    std::fill_n(view.as<std::byte>(), view.bytes(), std::byte{0});
  };
  options.seconds = 0;
  options.memory_bytes = 3 * 64 * kKiB;
  Machine machine{.threads = 2};
  const int64_t measured = measure_operations(graph, options, machine);
  CHECK(measured > 0);
  CHECK(measured < signatures_of(graph));
  options.memory_bytes = 0;
  Machine unknown{.threads = 2};
  CHECK(measure_operations(graph, options, unknown) == 0);
  CHECK(unknown.operations.empty());
}
