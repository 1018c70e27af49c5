#include "job/measure_job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "ops/optimizers/optimizer.h"
#include "plan/signature.h"
#include "runtime/computer.h"
#include "runtime/machine_cache.h"
#include "runtime/measure_operations.h"
#include "runtime/stream_size.h"
#include "tests/support/cache_folder.h"
#include "tests/support/cpu_share.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

int64_t signatures_of(std::initializer_list<const Graph*> graphs) {
  std::set<std::string> signatures;
  for (const Graph* graph : graphs)
    for (OpId op = 0; op < static_cast<OpId>(graph->ops.size()); ++op) signatures.insert(signature_of(*graph, op));
  return std::ssize(signatures);
}
int64_t signatures_of(const Graph& graph) { return signatures_of({&graph}); }

void fill_zeros(const TensorView& view) { std::fill_n(view.as<std::byte>(), view.bytes(), std::byte{0}); }

}  // namespace

TEST_CASE("every operation of a training graph is measured once, and no job's numbers are needed for it") {
  const CacheFolder cache;
  const FixedCpuShare quiet(1);
  for (const bool lora : {false, true}) {
    CAPTURE(lora);
    const train::Job job =
        tiny_job(kGoldenModels / "llama2", {.adapter = lora ? "adapter" : "", .dtype = DType::kBF16, .dropout = 0.1});
    const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
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

TEST_CASE("operations that read indices, such as the experts of tokens, are measured with some that a run might have") {
  const CacheFolder cache;
  const FixedCpuShare quiet(1);
  for (const char* model : {"qwen3_moe", "qwen2_moe"}) {
    CAPTURE(std::string(model));
    const train::Job job = tiny_job(kGoldenModels / model, {.dtype = DType::kBF16, .router_aux_loss_coef = 0.5});
    const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
    Machine machine{.threads = 2};
    train::measure_job(job, training, machine);
    CHECK(std::ssize(machine.operations) == signatures_of(training.graph));
  }
}

// States that no training has, such as a learning rate below 0, must not keep an update from ending.
TEST_CASE("the operations of every optimizer are measured, whatever numbers their states hold") {
  const FixedCpuShare quiet(1);
  const auto fill = [](ValueId, const TensorView& view, int64_t) { fill_zeros(view); };
  for (const ops::OptimizerDef* optimizer : ops::all_optimizers()) {
    CAPTURE(optimizer->name);
    train::Job job = tiny_job(kGoldenModels / "llama2", {.adapter = "adapter", .optimizer = optimizer});
    const Graph graph = train::build_training_graph(*job.model, job.graph).graph;
    Machine machine{.threads = 2};
    CHECK(measure_operations({{{&graph, fill}}}, {.seconds = 0}, machine) == signatures_of(graph));
  }
}

// A computer so slow by its rates that nothing may be measured whole.
TEST_CASE("what would take long is measured on a shorter stream, and every step of it is told") {
  const CacheFolder cache;
  train::Job job = tiny_job(kGoldenModels / "llama2", {.adapter = "adapter", .dtype = DType::kBF16});
  job.graph.model.tokens = job.graph.model.sequence_len = 16 * kMinTokens;
  const Graph graph = train::build_training_graph(*job.model, job.graph).graph;
  OperationMeasureOptions options{.sequence_len = job.graph.model.sequence_len, .seconds = 0};
  int64_t max_tokens = 0, calls = 0;
  const auto fill = [&](ValueId, const TensorView& view, int64_t tokens) {
    fill_zeros(view);
    if (view.elems() > 1) max_tokens = std::max(max_tokens, tokens);
  };
  options.on_progress = [&](int64_t done, int64_t of) {
    CHECK(done == ++calls);
    CHECK(of == signatures_of(graph));
  };
  Machine machine{.threads = 2, .matrix_flops_f32 = 1e3, .matrix_flops_bf16 = 1e3, .memory_bytes_per_second = 1e3};
  CHECK(measure_operations({{{&graph, fill}}}, options, machine) == signatures_of(graph));
  CHECK(calls == signatures_of(graph));
  CHECK(max_tokens == kMinTokens);
  for (const auto& [signature, seconds] : machine.operations) CHECK(seconds.compute > 0);
}

TEST_CASE("the operations of several graphs are measured in one go, and those that they share once") {
  const auto graph_for = [](const char* adapter) {
    const train::Job job = tiny_job(kGoldenModels / "llama2", {.adapter = adapter, .dtype = DType::kBF16});
    return train::build_training_graph(*job.model, job.graph).graph;
  };
  const Graph full = graph_for(""), lora = graph_for("adapter");
  const int64_t all = signatures_of({&full, &lora});
  REQUIRE(all < signatures_of(full) + signatures_of(lora));
  REQUIRE(all > signatures_of(full));
  const auto fill = [](ValueId, const TensorView& view, int64_t) { fill_zeros(view); };
  int64_t calls = 0;
  OperationMeasureOptions options{.seconds = 0};
  options.on_progress = [&](int64_t done, int64_t of) {
    CHECK(done == ++calls);
    CHECK(of == all);
  };
  Machine machine{.threads = 2};
  CHECK(measure_operations({{{&full, fill}, {&lora, fill}}}, options, machine) == all);
  CHECK(calls == all);
  CHECK(std::ssize(machine.operations) == all);
}

TEST_CASE("operations that were measured on a busy machine are measured again on one less busy") {
  const CacheFolder cache;
  const train::Job job = tiny_job(kGoldenModels / "llama2", {.dtype = DType::kBF16});
  const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  Machine machine{.name = cpu_name(), .threads = available_cpus()};
  // Returns true if a start with this share of the CPUs measures all operations again and updates the cache; checks
  // that it measures none otherwise.
  const auto measures = [&](double cpu_share) {
    constexpr double kMarked = 1e-12;
    for (auto& [signature, known] : machine.operations) known.compute = kMarked;
    cache_machine(machine, cpu_device());
    const FixedCpuShare fixed(cpu_share);
    train::measure_job(job, training, machine);
    CHECK(std::ssize(machine.operations) == signatures_of(training.graph));
    CHECK(cached_machine(cpu_device()).value().operations == machine.operations);
    const auto marked = std::count_if(machine.operations.begin(), machine.operations.end(),
                                      [](const auto& operation) { return operation.second.compute == kMarked; });
    CHECK((marked == 0 || marked == std::ssize(machine.operations)));
    return marked == 0;
  };
  CHECK(measures(0.2));
  CHECK_FALSE(measures(0.2));
  CHECK(measures(0.5));
  CHECK_FALSE(measures(0.5));
  CHECK(measures(1));
  CHECK_FALSE(measures(0.2));
}

TEST_CASE("scratch memory is bounded: what needs more works on fewer rows or is left out") {
  const train::Job job = tiny_job(kGoldenModels / "llama2", {.dtype = DType::kBF16});
  const Graph graph = train::build_training_graph(*job.model, job.graph).graph;
  OperationMeasureOptions options;
  const std::vector<MeasuredGraph> graphs = {
      {&graph, [](ValueId, const TensorView& view, int64_t) { fill_zeros(view); }}};
  options.seconds = 0;
  options.memory_bytes = 3 * 64 * kKiB;
  Machine machine{.threads = 2};
  const int64_t measured = measure_operations(graphs, options, machine);
  CHECK(measured > 0);
  CHECK(measured < signatures_of(graph));
  options.memory_bytes = 0;
  Machine unknown{.threads = 2};
  CHECK(measure_operations(graphs, options, unknown) == 0);
  CHECK(unknown.operations.empty());
}
