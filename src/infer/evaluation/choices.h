// Multiple-choice items of a file: contexts with choices, of which the likeliest is the answer, scored as
// lm-evaluation-harness 0.4 scores its multiple_choice tasks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace spillway::infer {

// A continuation with its context.
struct ScoredText {
  std::vector<int32_t> ids;
  int64_t context = 0;  // tokens before the continuation, at least one
};

struct ChoiceItem {
  std::vector<ScoredText> texts;           // one a choice
  std::vector<int64_t> characters, bytes;  // of each choice
  size_t gold = 0;
};

// The options for encoding a context and a continuation.
struct ChoiceEncoding {
  int64_t most_tokens = 0;  // that the model reads; a text loses its beginning
  bool adds_special_tokens = false;
};

// Reads a JSON object per line: `context` (or `query`, `question`), `choices` (a list of texts), `gold` (or `answer`,
// `label`: the index of one, from 0), and optionally `delimiter`, the text between context and choice, by default a
// space. Throws InputError with file and line.
[[nodiscard]] std::vector<ChoiceItem> read_choices(const std::string& path, const text::Tokenizer& tokenizer,
                                                   const ChoiceEncoding& encoding);

// Encodes context and continuation together and counts the context's own tokens. Spaces at the end of the context
// belong to the continuation. An empty context is replaced by the token that begins texts, or else the one that ends
// them.
[[nodiscard]] ScoredText encode_pair(const text::Tokenizer& tokenizer, std::string context, std::string continuation,
                                     const ChoiceEncoding& encoding);

struct ChoiceScores {
  std::vector<double> log_probs;  // of each choice, the sum over its tokens
  std::vector<bool> are_greedy;   // each of its tokens is the likeliest
};

// The keys are "items", "acc", "acc_norm" (by characters), "acc_bytes", their "..._stderr", and "choices":
// [{"log_probs", "is_greedy", "answer", "gold"}]. Among equal choices the first is the answer.
[[nodiscard]] nlohmann::ordered_json choices_json(std::span<const ChoiceItem> items,
                                                  std::span<const ChoiceScores> scores);

}  // namespace spillway::infer
