#include "data/rows/answer_space.h"

#include <algorithm>

#include "base/error.h"
#include "data/rows/replaced_places.h"
#include "data/rows/token_spans.h"

namespace spillway::data {
namespace {

// Returns true if the bytes of the text before and at this place share a token.
bool shares_token(const text::Tokenizer& tokenizer, const std::string& text, int64_t at) {
  const auto spans = token_spans(tokenizer, text, tokenizer.encode(text, false));
  return spans && std::any_of(spans->begin(), spans->end(),
                              [&](const auto& span) { return span.first < at && at < span.second; });
}

}  // namespace

std::string white_space_before_answers(const text::ChatTemplate& chat_template, const nlohmann::ordered_json& variables,
                                       const std::optional<std::tm>& now, const text::Tokenizer& tokenizer) {
  const auto [answer, question] = kStandIns;
  text::ChatInput input;
  input.variables = variables;
  input.messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", question}}});
  input.add_generation_prompt = true;
  try {
    const std::string prompt = text::render_chat(chat_template, input, now).text;
    input.messages.push_back({{"role", "assistant"}, {"content", answer}});
    input.add_generation_prompt = false;
    const std::string whole = text::render_chat(chat_template, input, now).text;
    const size_t begin = whole.find(answer, prompt.size());
    if (!whole.starts_with(prompt) || begin == std::string::npos) return {};
    std::string space = whole.substr(prompt.size(), begin - prompt.size());
    const bool is_space = space.find_first_not_of(" \t\r\n") == std::string::npos;
    return is_space && shares_token(tokenizer, whole, static_cast<int64_t>(begin)) ? space : std::string();
  } catch (const InputError&) {
    return {};  // the template wants other conversations
  }
}

}  // namespace spillway::data
