// Reads requests of OpenAI's interface from untrusted JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "infer/generation/penalties.h"
#include "infer/generation/sampling.h"

namespace spillway::serve {

// A request that cannot be answered: an HTTP status, and the members of OpenAI's error object.
class RequestError : public std::runtime_error {
 public:
  RequestError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& param() const { return param_; }  // the field; empty: none
  [[nodiscard]] const std::string& code() const { return code_; }    // empty: none
  // Returns {"error": {"message", "type", "param", "code"}}.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  int status_;
  std::string param_, code_;
};

// A text, or token ids.
using TextOrIds = std::variant<std::string, std::vector<int32_t>>;

// The sampling of tokens; its length is an upper limit.
struct Choice {
  infer::Sampling sampling;
  infer::Penalties penalties = {};
};

// The values of `response_format`.
enum class AnswerFormat { kText, kJsonObject, kJsonSchema };

struct GenerationRequest {
  // For chat: an object with `messages`, as text::chat_input reads it; the contents are texts.
  nlohmann::ordered_json conversation;
  std::vector<TextOrIds> prompts;  // of completions

  int64_t choices = 1;                // for each prompt
  std::optional<int64_t> max_tokens;  // as asked for; 0 with `echo` alone
  Choice choice;                      // its length is the default's
  bool has_seed = false;
  std::vector<std::string> stop;
  AnswerFormat format = AnswerFormat::kText;
  nlohmann::ordered_json schema;  // of kJsonSchema, as it came
  bool stream = false, include_usage = false;
  bool logprobs = false;
  int64_t top_logprobs = 0;
  bool may_call_tools = false;      // there are some, and tool_choice is not none
  bool parallel_tool_calls = true;  // an answer may have several
  bool must_call_tools = false;     // an answer is calls and nothing else
  std::string called_tool;          // of must_call_tools: the only function that is called, once; empty: any
  bool echo = false;  // the prompt is part of the text, and its tokens are among those with log-probabilities
};

constexpr int64_t kMaxChoices = 128;

// Parse the bodies of /v1/chat/completions and /v1/completions. Missing fields are as in `defaults`; unknown fields are
// ignored, and those that ask for something unsupported are refused. They throw RequestError.
[[nodiscard]] GenerationRequest parse_chat_request(std::string_view body, const Choice& defaults);
[[nodiscard]] GenerationRequest parse_completion_request(std::string_view body, const Choice& defaults);

}  // namespace spillway::serve
