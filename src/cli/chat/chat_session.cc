#include "cli/chat/chat_session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cli/checked_text.h"
#include "text/token_ids.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kWhere = "spillway chat";

Json message(const char* role, const std::string& text) { return {{"role", role}, {"content", text}}; }

}  // namespace

ChatSession::ChatSession(const text::Tokenizer& tokenizer, const text::ChatTemplates& chats, infer::Decoder& decoder,
                         ChatOptions options)
    : tokenizer_(tokenizer), chats_(chats), decoder_(decoder), options_(std::move(options)) {}

void ChatSession::set_system(const std::string& text) {
  check_text(text, kWhere);
  system_ = text;
}

void ChatSession::reset() {
  turns_.clear();
  first_shown_ = 0;
}

Json ChatSession::messages() const {
  Json list = Json::array();
  if (!system_.empty()) list.push_back(message("system", system_));
  for (const Json& turn : turns_) list.push_back(turn);
  return list;
}

std::vector<int32_t> ChatSession::prompt_from(size_t first) const {
  Json list = Json::array();
  if (!system_.empty()) list.push_back(message("system", system_));
  for (size_t i = first; i < turns_.size(); ++i) list.push_back(turns_[i]);
  std::vector<int32_t> ids = tokenizer_.encode(text::render_prompt(list, chats_, tokenizer_, kWhere, warnings_), false);
  if (ids.empty()) throw input_error(kWhere, "expected a prompt of at least one token, got none; write something");
  text::check_token_ids(ids, options_.vocab_size, options_.model);
  return ids;
}

// Returns the prompt of the conversation from turns_[first] on; moves `first` to a later message of the user's as far
// as needed.
std::vector<int32_t> ChatSession::fitting_prompt(size_t& first) const {
  // Reserves room for an answer, but not so much that the conversation is lost.
  const int64_t room = std::min(options_.sampling.max_new_tokens, std::max<int64_t>(options_.context / 4, 1));
  for (;;) {
    std::vector<int32_t> ids = prompt_from(first);
    const int64_t most = options_.context - (first + 1 < turns_.size() ? room : 1);
    if (std::ssize(ids) <= most) return ids;
    if (first + 1 >= turns_.size())
      throw input_error(kWhere,
                        "expected a message that fits into a context of {} tokens, got {} with what stands around it; "
                        "shorten it, or begin with a larger --context",
                        options_.context, ids.size());
    do {
      ++first;
    } while (turns_[first]["role"] != "user");
  }
}

void ChatSession::begin(const infer::Prompt& prompt) {
  infer::SequenceRules rules{.stop_ids = tokenizer_.stop_ids(), .penalties = options_.penalties};
  if (sequence_) {
    decoder_.renew(*sequence_, prompt, std::move(rules));
    return;
  }
  sequence_ = decoder_.join(prompt, std::move(rules), options_.context);
  SPILLWAY_CHECK(sequence_, "no room for a context of {} tokens", options_.context);
}

ChatAnswer ChatSession::ask(const std::string& text, const std::function<void(std::string_view)>& show,
                            const std::function<bool()>& goes_on) {
  check_text(text, kWhere);
  turns_.push_back(message("user", text));
  ChatAnswer result;
  std::string said;
  try {
    size_t first = first_shown_;
    infer::Prompt prompt{fitting_prompt(first), options_.sampling};
    const int64_t room = options_.context - std::ssize(prompt.ids);
    const bool is_short_of_room = room < prompt.sampling.max_new_tokens;
    prompt.sampling.max_new_tokens = std::min(room, prompt.sampling.max_new_tokens);
    begin(prompt);
    result = answer(show, goes_on, said);
    if (result.end == AnswerEnd::kLength && is_short_of_room) result.end = AnswerEnd::kContext;
    result.newly_forgotten = static_cast<int64_t>(first - first_shown_);
    first_shown_ = first;
  } catch (const InputError&) {
    turns_.pop_back();
    throw;
  }
  if (result.end == AnswerEnd::kInterrupted && said.empty()) {
    turns_.pop_back();
  } else {
    turns_.push_back(message("assistant", said));
  }
  return result;
}

ChatAnswer ChatSession::answer(const std::function<void(std::string_view)>& show, const std::function<bool()>& goes_on,
                               std::string& said) {
  text::Tokenizer::StreamDecoder decoder(tokenizer_, true);
  const auto say = [&](const std::string& piece) {
    said += piece;
    show(piece);
  };
  ChatAnswer result;
  for (;;) {
    if (!goes_on()) {
      result.end = AnswerEnd::kInterrupted;
      break;
    }
    decoder_.read_prompts(1);
    const std::vector<infer::Chosen> chosen = decoder_.decode();
    if (chosen.empty()) continue;  // more of the prompt is to be read
    ++result.tokens;
    if (chosen[0].shown) say(decoder.push(chosen[0].id));
    if (!chosen[0].is_last) continue;
    result.end = chosen[0].stopped ? AnswerEnd::kStopped : AnswerEnd::kLength;
    break;
  }
  say(decoder.finish());
  return result;
}

}  // namespace spillway
