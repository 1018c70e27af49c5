// Common arguments of the commands that generate: the model, its device, and the sampling of tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "backend/device.h"
#include "base/parallel.h"
#include "cli/command_line.h"
#include "infer/generation/generator.h"

namespace spillway {

struct ModelArguments {
  std::string model, adapter, memory, host_memory, device = "auto";

  // Adds MODEL, --adapter, --device, --memory.device and --memory.host.
  void add_to(CommandLine& line);
  // Adds the last three; `read_when` says how often weights that do not fit are read.
  void add_place_to(CommandLine& line, std::string_view read_when);
  // Returns the memory for weights and caches by --memory.device and --memory.host. Without them: what is free, of a
  // device with a memory of its own and beside it, or of RAM that does not hold all weights; else everything is kept.
  // `instead` is as in InferenceBudget.
  [[nodiscard]] infer::InferenceBudget budget(Device& on, std::string_view instead) const;
  // Returns the tokenizer's folder, which is the adapter's if that has its own tokens and chat template.
  [[nodiscard]] std::filesystem::path tokenizer_folder() const;
  // Returns `wanted`, or if that is 0 the smaller of 4096 and the model's own context. Throws InputError if `wanted`
  // exceeds the model's context.
  [[nodiscard]] int64_t context(int64_t wanted) const;
};

constexpr int64_t kMaxNewTokens = 1 << 20, kMaxTopK = 1 << 30;
constexpr double kMaxTemperature = 100;

struct SamplingArguments {
  infer::Sampling sampling;
  infer::Penalties penalties = {.repetition = 0};  // 0: the model's

  // Adds --max-new-tokens, --temperature, --top-p, --top-k, --min-p, the penalties and --seed, with the members as
  // defaults.
  void add_to(CommandLine& line);
};

// A model in memory, with the device and the threads that it runs on.
class LoadedModel {
 public:
  // Throws InputError and MachineError as train::Generator does.
  LoadedModel(const ModelArguments& arguments, const SamplingArguments& sampling, const infer::GenerationSizes& sizes);

  [[nodiscard]] infer::Generator& generator() { return *generator_; }

 private:
  ThreadPool pool_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<infer::Generator> generator_;
};

}  // namespace spillway
