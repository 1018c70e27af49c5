// Measures planning: plans of a deep model with all tiers open, each with its frontier. Reports seconds by the clock,
// and of a CPU, which depend less on other work on the machine.
//
//   bench_plan [--blocks N] [--group G] [--machine FILE.json]
//
// With a group, steps of G micro-batches that are computed layer by layer.
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/index.h"
#include "io/file.h"
#include "job/training_graph.h"
#include "model/decoder/decoder.h"
#include "plan/search.h"

using namespace spillway;

namespace {

struct Taken {
  double seconds = 0, cpu_seconds = 0;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Taken time_of(const auto& body) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds();
  body();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), cpu_seconds() - cpu_start};
}

// SmolLM2-135M's shapes, with another number of blocks.
ModelPtr model_of(int blocks) {
  return make_decoder(
      parse_decoder_config(fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536, "max_position_embeddings": 8192,
    "num_attention_heads": 9, "num_hidden_layers": {}, "num_key_value_heads": 3, "rms_norm_eps": 1e-05,
    "rope_theta": 100000.0, "tie_word_embeddings": true, "vocab_size": 49152}})",
                                       blocks),
                           "bench"));
}

Graph graph_of(int blocks, int64_t group, bool lora) {
  train::TrainingGraphOptions options;
  options.model = {.dtype = DType::kBF16, .tokens = 2048, .max_sequences = 4, .sequence_len = 512};
  options.model.train_base = !lora;
  if (lora) options.model.lora = LoraOptions{.r = 16, .alpha = 32};
  options.micro_batches = group;
  options.accumulates = options.is_whole_step = group > 1;
  return train::build_training_graph(*model_of(blocks), options).graph;
}

// Where the file names none: lanes as fast as to make every choice worth a look.
Machine machine_of(const std::string& file) {
  if (!file.empty()) {
    const nlohmann::json json = nlohmann::json::parse(read_file(file, int64_t{1} << 20));
    return machine_from_json(json.contains("machine") ? json["machine"] : json, file);
  }
  Machine machine{.threads = 2};
  machine.link_bytes_per_second.fill(5e9);
  nth(machine.link_bytes_per_second, Lane::kDiskRead) = 1.5e9;
  nth(machine.link_bytes_per_second, Lane::kDiskWrite) = 1e9;
  return machine;
}

void run(const char* job, const Graph& graph, const Machine& machine) {
  const int64_t most = make_plan(graph, machine, {}, saved_policy(ActivationPolicy::kKeep)).peaks[0].bytes;
  for (const int64_t percent : {70, 50, 30, 20, 12}) {
    const Budget budget{.device = most * percent / 100, .host = most / 4, .disk = 2 * most};
    Plan plan;
    const Taken taken = time_of([&] { plan = make_plan(graph, machine, budget, {}); });
    fmt::print("{:5} {:3} % of {}: plan {:5.2f} s (CPU {:.2f}); fits {}, step {:.4f} s\n", job, percent,
               format_bytes(most), taken.seconds, taken.cpu_seconds, plan.fits, plan.simulation.step_seconds(1));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int blocks = 128, group = 1;
  std::string file;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--blocks")) blocks = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--group")) group = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--machine")) file = argv[i + 1];
  }
  const Machine machine = machine_of(file);
  for (const bool lora : {true, false}) {
    const Graph graph = graph_of(blocks, group, lora);
    fmt::print("{}: {} blocks, {} micro-batches, {} operations\n", lora ? "LoRA" : "full", blocks, group,
               graph.ops.size());
    run(lora ? "LoRA" : "full", graph, machine);
  }
  return 0;
}
