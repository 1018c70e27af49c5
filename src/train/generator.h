// Generation with a key-value cache: the same planned program takes the prompt in pieces and then one token at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "model/config.h"
#include "model/transformer.h"
#include "plan/planner.h"
#include "runtime/executor.h"

namespace spillway::train {

struct Sampling {
  int64_t max_new_tokens = 256;
  double temperature = 0;  // 0: the most likely token
  double top_p = 1;        // the fewest tokens whose probabilities reach this
  int64_t top_k = 0;       // the most likely ones; 0: all
  uint64_t seed = 0;
};

struct Generated {
  std::vector<int32_t> ids;      // the new tokens, without the one that stopped
  std::vector<double> logprobs;  // of each, under the model's own distribution (temperature 1, no penalty)
  bool stopped = false;          // by a stop token, not by the length
};

class Generator {
 public:
  // Plans for `context` tokens, prompt included, and reads the weights; `adapter` is a PEFT folder or empty. Weights
  // and caches all live on `device`, which is borrowed. Throws InputError for folders that do not fit together,
  // MachineError where the device has too little memory.
  Generator(const std::filesystem::path& model, const std::filesystem::path& adapter, int64_t context, ThreadPool& pool,
            Device& device = cpu_device());

  // Applies the model's repetition penalty. `on_token` gets each new token as it is chosen. REQUIRES: the prompt is not
  // empty, its ids are in the vocabulary, and it fits the context with the new tokens.
  [[nodiscard]] Generated generate(std::span<const int32_t> prompt, std::span<const int32_t> stop_ids,
                                   const Sampling& sampling, const std::function<void(int32_t)>& on_token);
  [[nodiscard]] const ModelConfig& config() const { return config_; }

 private:
  // Appends tokens at row `start` of the caches; returns the logits of the last one, [vocab_size].
  std::span<const float> run(std::span<const int32_t> tokens, int64_t start);

  ModelConfig config_;
  Graph graph_;
  CachedDecoder decoder_;
  Plan plan_;
  std::optional<Executor> executor_;
};

// What transformers' repetition penalty makes of the logits: those of the tokens in `seen` are divided by `penalty`
// where they are positive and multiplied by it where they are negative, once each.
void penalise_repetition(std::span<float> logits, std::span<const int32_t> seen, double penalty);

// Chooses a token: greedy, or by temperature, top-k and top-p in that order, as transformers does. `uniform` is a
// random number in [0, 1).
[[nodiscard]] int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform);

}  // namespace spillway::train
