// Jobs whose ranks share sequences: what cannot be shared, and what a rank then holds.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/index.h"
#include "config/load.h"
#include "job/planned_job.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

train::Job context_job(const char* model, int ranks, std::string_view lines) {
  const std::string text = fmt::format(
      "base_model: {}\noutput_dir: unused\nlearning_rate: 1\ndatasets: [{{path: unused}}]\nnum_processes: {}\n"
      "context_parallel_size: {}\n{}",
      (kGoldenModels / model).string(), ranks, ranks, lines);
  return train::make_job(config::load_config(text, "test", {}, config::ConfigUse::kTrain).config, tiered_machine());
}

std::string context_error(const char* model, int ranks, std::string_view lines) {
  try {
    (void)context_job(model, ranks, lines);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Returns the bytes of the device at the peak of training, but for what stays from step to step.
double activation_bytes(int ranks) {
  Machine machine = tiered_machine();
  nth(machine.link_bytes_per_second, Lane::kPeer) = 1e9;
  const train::PlannedJob planned =
      train::plan_job(context_job("qwen3_tied", ranks,
                                  "adapter: lora\nlora_r: 4\nlora_target_linear: true\nsequence_len: 512\n"
                                  "micro_batch_size: 2\ngradient_checkpointing: false\nmemory: {plan: fixed}\n"),
                      machine);
  const Graph& graph = planned.training.graph;
  int64_t bytes = nth(planned.plan.program.arena_bytes, Tier::kDevice);
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
    if (graph.is_persistent(id)) bytes -= graph.value(id).type.bytes();
  return static_cast<double>(bytes);
}

}  // namespace

TEST_CASE("ranks that share sequences are at most the query heads") {
  CHECK(context_error("llama2", 4, "adapter: lora\nlora_r: 4\nlora_target_linear: true\n").empty());
  CHECK(context_error("llama2", 8, "adapter: lora\nlora_r: 4\nlora_target_linear: true\n") ==
        "[context_parallel_size] expected at most the query heads of a layer, 4, got 8; lower it");
}

TEST_CASE("a rank of two that share sequences has half of the activations") {
  CHECK(activation_bytes(1) > 1e6);
  CHECK(activation_bytes(2) <= 0.6 * activation_bytes(1));
}
