// Tokens of an answer with their log-probabilities, in the formats of OpenAI's two interfaces.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/generation/sampling.h"
#include "text/tokenizer.h"

namespace spillway::serve {

struct ShownToken {
  struct Alternative {
    std::string token;
    float logprob = 0;
  };
  std::string token;
  std::optional<float> logprob = {};  // nothing follows from nothing: the first of a prompt has none
  std::vector<Alternative> top = {};  // the likeliest first
};

[[nodiscard]] ShownToken shown_token(const text::Tokenizer& tokenizer, int32_t id,
                                     std::optional<float> logprob = std::nullopt,
                                     std::span<const infer::TokenLogprob> top = {});

// Return the member `logprobs` of a choice of /v1/chat/completions and of /v1/completions. In the latter, tokens with
// the same text are one alternative, the likeliest.
[[nodiscard]] nlohmann::ordered_json chat_logprobs(std::span<const ShownToken> tokens);
[[nodiscard]] nlohmann::ordered_json completion_logprobs(std::span<const ShownToken> tokens, bool with_top);

}  // namespace spillway::serve
