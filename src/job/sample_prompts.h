// A few prompts that a training job answers every so many steps, with the weights of that moment.
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

// Reads the tokenizer where the config has prompts. Each is a user's message where the rows of the config or its
// tokenizer have a chat template, else a text to continue. Throws InputError where a prompt has no token, or one that
// the model has no row for. `now` is the time that templates show.
[[nodiscard]] SamplePrompts read_sample_prompts(const config::Config& config, int64_t vocab_size, const std::tm& now);

// One prompt's answer, with special tokens left out.
struct SampleAnswer {
  std::string prompt, text;
};
[[nodiscard]] std::vector<SampleAnswer> sample_answers(const SamplePrompts& samples,
                                                       const std::vector<infer::Generated>& answers);

}  // namespace spillway::train
