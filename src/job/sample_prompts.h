// Sample prompts that a training job answers every few steps with its current weights.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "infer/generation/generate.h"
#include "plan/planner.h"
#include "text/tokenizer.h"

namespace spillway::train {

struct SamplePrompts {
  std::vector<std::string> texts;      // as the config has them
  std::vector<infer::Prompt> prompts;  // greedy
  std::shared_ptr<const text::Tokenizer> tokenizer;

  [[nodiscard]] bool empty() const { return prompts.empty(); }
};

// Reads the prompts, and the tokenizer if there are any. A prompt is a user's message if the rows of the config or its
// tokenizer have a chat template, else a text to continue. `now` is the time that templates show. Throws InputError for
// a prompt without tokens or with one outside of the model's vocabulary.
[[nodiscard]] SamplePrompts read_sample_prompts(const config::Config& config, int64_t vocab_size, const std::tm& now);

// The answer to a prompt, without special tokens.
struct SampleAnswer {
  std::string prompt, text;
};
[[nodiscard]] std::vector<SampleAnswer> sample_answers(const SamplePrompts& samples,
                                                       const std::vector<infer::Generated>& answers);

}  // namespace spillway::train
