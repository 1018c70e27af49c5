// What the commands that generate have in common: which model, where, and how its tokens are chosen.
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
  std::string model, adapter, memory, device = "auto";

  // MODEL, --adapter, --device and --memory.device.
  void add_to(CommandLine& line);
  // The last two; `read_when` says how often what does not fit is read.
  void add_place_to(CommandLine& line, std::string_view read_when);
  // What --memory.device leaves to weights and caches; all of the device without it. `instead` as in InferenceBudget.
  [[nodiscard]] infer::InferenceBudget budget(Device& on, std::string_view instead) const;
  // An adapter may have brought tokens and a chat template along.
  [[nodiscard]] std::filesystem::path tokenizer_folder() const;
  // The least of 4096 and what the model was made for, or `wanted` unless that is 0. Throws InputError where that is
  // more than the model was made for.
  [[nodiscard]] int64_t context(int64_t wanted) const;
};

constexpr int64_t kMaxNewTokens = 1 << 20, kMaxTopK = 1 << 30;
constexpr double kMaxTemperature = 100, kMaxPenalty = 100, kMaxOfAnswer = 2;

struct SamplingArguments {
  infer::Sampling sampling;
  infer::Penalties penalties = {.repetition = 0};  // 0: the model's

  // --max-new-tokens, --temperature, --top-p, --top-k, --min-p, the penalties and --seed, with the defaults that are
  // here.
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
