#include "serve/token_json.h"

#include <algorithm>

namespace spillway::serve {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; clients know this number for it.
float finite(float logprob) { return std::max(logprob, -9999.0F); }

Json number_or_null(std::optional<float> logprob) { return logprob ? Json(finite(*logprob)) : Json(nullptr); }

Json chat_token(const std::string& token, std::optional<float> logprob) {
  Json bytes = Json::array();
  for (const char c : token) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token}, {"logprob", number_or_null(logprob)}, {"bytes", std::move(bytes)}};
}

// The actual token is always among its alternatives, however unlikely it is.
Json alternatives_of(const ShownToken& shown) {
  if (!shown.logprob) return nullptr;
  Json alternatives = Json::object();
  for (const ShownToken::Alternative& one : shown.top) alternatives.emplace(one.token, finite(one.logprob));
  alternatives.emplace(shown.token, finite(*shown.logprob));
  return alternatives;
}

}  // namespace

ShownToken shown_token(const text::Tokenizer& tokenizer, int32_t id, std::optional<float> logprob,
                       std::span<const infer::TokenLogprob> top) {
  const auto text_of = [&](int32_t one) { return tokenizer.decode(std::span(&one, 1), false); };
  ShownToken shown{.token = text_of(id), .logprob = logprob};
  for (const infer::TokenLogprob& one : top) shown.top.push_back({text_of(one.id), one.logprob});
  return shown;
}

Json chat_logprobs(std::span<const ShownToken> tokens) {
  Json content = Json::array();
  for (const ShownToken& shown : tokens) {
    Json token = chat_token(shown.token, shown.logprob), top = Json::array();
    for (const ShownToken::Alternative& one : shown.top) top.push_back(chat_token(one.token, one.logprob));
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}};
}

Json completion_logprobs(std::span<const ShownToken> tokens, bool with_top) {
  Json texts = Json::array(), logprobs = Json::array(), top = with_top ? Json::array() : Json(nullptr);
  for (const ShownToken& shown : tokens) {
    texts.push_back(shown.token);
    logprobs.push_back(number_or_null(shown.logprob));
    if (with_top) top.push_back(alternatives_of(shown));
  }
  return {{"tokens", std::move(texts)}, {"token_logprobs", std::move(logprobs)}, {"top_logprobs", std::move(top)}};
}

}  // namespace spillway::serve
