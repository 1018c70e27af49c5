#include "serve/api.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/sizes.h"
#include "base/text.h"
#include "text/conversation.h"

namespace spillway::serve {
namespace {

using Json = nlohmann::ordered_json;

int64_t now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 1;
}

Json usage_of(const Conversation& conversation) {
  const int64_t answered = conversation.reply->completion_tokens();
  return {{"prompt_tokens", conversation.prompt_tokens},
          {"completion_tokens", answered},
          {"total_tokens", conversation.prompt_tokens + answered}};
}

// Returns the common head of both kinds of answer, whole or in chunks.
Json head_of(const Conversation& conversation, const char* chat_object, const std::string& model) {
  return {{"id", conversation.id},
          {"object", conversation.is_chat ? chat_object : "text_completion"},
          {"created", conversation.created},
          {"model", model},
          {"choices", Json::array()}};
}

Json logprobs_of(const Conversation& conversation, const std::vector<ShownToken>& tokens) {
  const GenerationRequest& request = conversation.request;
  if (!request.logprobs) return nullptr;
  return conversation.is_chat ? chat_logprobs(tokens) : completion_logprobs(tokens, request.top_logprobs > 0);
}

Json reason_of(const std::string& reason) { return reason.empty() ? Json(nullptr) : Json(reason); }

// The calls of a whole answer, or of a part of one, whose first is number `first` then.
Json calls_json(const std::vector<ToolCall>& calls, std::optional<int64_t> first) {
  Json json = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Json call = Json::object();
    if (first) call["index"] = *first + static_cast<int64_t>(i);
    call["id"] = calls[i].id;
    call["type"] = "function";
    call["function"] = {{"name", calls[i].name}, {"arguments", calls[i].arguments}};
    json.push_back(std::move(call));
  }
  return json;
}

RequestError ended_early() {
  return {503, "[server] expected to answer to the end, got the server's; send the request again", {}, "server_closed"};
}

std::string event(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

}  // namespace

Api::Api(ServedModel model, const text::Tokenizer& tokenizer, Scheduler& scheduler)
    : model_(std::move(model)), tokenizer_(tokenizer), scheduler_(scheduler), started_(now()), grammars_(tokenizer) {}

void Api::check(const std::vector<int32_t>& ids, const char* param) const {
  if (ids.empty())
    throw RequestError(400, fmt::format("[request: {}] expected at least one token, got none; write something", param),
                       param);
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (*largest >= model_.vocab_size)
    throw RequestError(400,
                       fmt::format("[request: {}] expected token ids below {}, got {}; use those of the model", param,
                                   model_.vocab_size, *largest),
                       param);
  if (std::ssize(ids) >= model_.context)
    throw RequestError(
        400,
        fmt::format("[request: {}] expected fewer than the {} tokens of the context, got {}; shorten it, "
                    "or serve with a larger --context",
                    param, model_.context, ids.size()),
        param, "context_length_exceeded");
}

std::vector<Api::ReadPrompt> Api::prompts_of(const GenerationRequest& request, bool is_chat) const {
  std::vector<ReadPrompt> prompts;
  const char* param = is_chat ? "messages" : "prompt";
  if (is_chat) {
    if (!model_.chats)
      throw RequestError(400,
                         "[request: messages] expected a model with a chat template, got one without; ask "
                         "/v1/completions",
                         param);
    try {
      std::string text =
          text::render_prompt(request.conversation, *model_.chats, tokenizer_, "request: messages", warnings_);
      prompts.push_back({tokenizer_.encode(text, false), std::move(text)});
    } catch (const InputError& error) {  // the template's or the tokenizer's
      throw RequestError(400, error.what(), param);
    }
  }
  for (const TextOrIds& prompt : request.prompts) {
    try {
      if (const auto* text = std::get_if<std::string>(&prompt)) {
        prompts.push_back({tokenizer_.encode(*text, true), *text});
      } else {
        prompts.push_back({std::get<std::vector<int32_t>>(prompt)});
      }
    } catch (const InputError& error) {
      throw RequestError(400, error.what(), param);
    }
  }
  for (ReadPrompt& prompt : prompts) {
    check(prompt.ids, param);
    if (request.echo && prompt.text.empty()) prompt.text = tokenizer_.decode(prompt.ids, false);
  }
  return prompts;
}

void Api::check(const infer::Penalties& penalties) const {
  for (const auto& [id, bias] : penalties.logit_bias) {
    if (id >= model_.vocab_size)
      throw RequestError(
          400,
          fmt::format("[request: logit_bias] expected token ids below {}, got {}; use those of the model",
                      model_.vocab_size, id),
          "logit_bias");
  }
}

// A larger request would never fit.
void Api::check_count(int64_t prompts, int64_t choices) const {
  const int64_t capacity = scheduler_.capacity();
  if (prompts * choices <= capacity) return;
  throw RequestError(400,
                     fmt::format("[request: n] expected at most {} answers at a time, got {}; ask for fewer, or serve "
                                 "with a larger --waiting",
                                 capacity, prompts * choices),
                     "n");
}

// Names are those of OpenAI's {"type": "function", "function": {"name": ...}}, or of the function alone.
OfferedTools Api::offered_tools(const GenerationRequest& request, uint64_t count) const {
  if (!request.may_call_tools || !model_.chats) return {};
  const Json& tools = request.conversation["tools"];
  OfferedTools offered{.format = tool_format_of(model_.chats->for_tools(tools).source()),
                       .one_call = !request.parallel_tool_calls,
                       .ids = fmt::format("{:05x}", (static_cast<uint64_t>(started_) + count) & 0xfffff)};
  for (const Json& tool : tools) {
    if (std::string name = function_name(tool); !name.empty()) offered.names.insert(std::move(name));
  }
  return offered;
}

// Returns the grammar of the answers; null if any text is one.
std::shared_ptr<text::TokenGrammar> Api::grammar_of(const GenerationRequest& request) {
  if (!request.must_call_tools || !model_.chats) return grammars_.of(request);
  const Json& tools = request.conversation["tools"];
  const std::string& chat_template = model_.chats->for_tools(tools).source();
  const ToolFormat format = tool_format_of(chat_template);
  if (format == ToolFormat::kNone)
    throw RequestError(400,
                       "[request: tool_choice] expected none or auto, as the model's chat template has no calls that "
                       "are known here, got a forced call; change it",
                       "tool_choice");
  std::vector<Json> called;
  for (const Json& tool : tools) {
    const std::string name = function_name(tool);
    if (!name.empty() && (request.called_tool.empty() || name == request.called_tool)) called.push_back(tool);
  }
  if (called.empty())
    throw RequestError(400,
                       fmt::format("[request: tool_choice] expected a function of tools, got {}; add it to them",
                                   request.called_tool.empty() ? "none with a name" : quote(request.called_tool)),
                       "tool_choice");
  const bool is_one = !request.parallel_tool_calls || !request.called_tool.empty();
  return grammars_.of(forced_calls(format, chat_template, called, is_one, "request: tools"),
                      special_marks(tokenizer_, format));
}

Conversation Api::begin(std::string_view body, bool is_chat) {
  Conversation result{.is_chat = is_chat, .created = now()};
  const uint64_t count = count_++;
  result.id = fmt::format("{}-{:x}{:08x}", is_chat ? "chatcmpl" : "cmpl", started_, count);
  result.request =
      is_chat ? parse_chat_request(body, model_.defaults) : parse_completion_request(body, model_.defaults);
  GenerationRequest& request = result.request;
  if (!request.has_seed) request.choice.sampling.seed = random_seed();
  check(request.choice.penalties);
  const std::shared_ptr<text::TokenGrammar> grammar = grammar_of(request);
  const OfferedTools tools = offered_tools(request, count);
  const std::vector<ReadPrompt> prompts = prompts_of(request, is_chat);
  check_count(std::ssize(prompts), request.choices);
  result.reply = std::make_shared<Reply>(std::ssize(prompts) * request.choices);
  infer::SequenceRules rules{.stop_ids = tokenizer_.stop_ids(),
                             .penalties = request.choice.penalties,
                             .logprobs = request.logprobs,
                             .top_logprobs = request.top_logprobs,
                             .prompt_logprobs = request.echo && request.logprobs};
  // Without an answer, one token more is made than is told.
  const bool answers = request.max_tokens != 0;
  std::vector<Job> jobs;
  for (const auto& [ids, text] : prompts) {
    result.prompt_tokens += std::ssize(ids);
    infer::Sampling sampling = request.choice.sampling;
    const int64_t wanted = answers ? request.max_tokens.value_or(sampling.max_new_tokens) : 1;
    sampling.max_new_tokens = std::min(wanted, model_.context - std::ssize(ids));
    ChoiceOptions options{.stops = request.stop, .logprobs = request.logprobs, .answers = answers, .tools = tools};
    if (request.echo) options.echoed = text;
    if (rules.prompt_logprobs) options.first_of_prompt = ids.front();
    for (int64_t i = 0; i < request.choices; ++i, ++sampling.seed) {
      const auto choice = static_cast<int64_t>(jobs.size());
      if (grammar) rules.matcher = std::make_shared<text::TokenMatcher>(grammar);
      jobs.push_back({{ids, sampling}, rules, std::make_shared<ChoiceSink>(result.reply, choice, tokenizer_, options)});
    }
  }
  if (!scheduler_.submit(std::move(jobs)))
    throw RequestError(503, "[server] expected room for the request, got none; send it again later", {}, "overloaded");
  return result;
}

Json Api::whole(const Conversation& conversation, const std::vector<Piece>& pieces) const {
  struct Whole {
    std::string text, finish_reason;
    std::vector<ShownToken> logprobs;
    std::vector<ToolCall> calls;
  };
  std::vector<Whole> choices;
  for (const Piece& piece : pieces) {
    if (piece.finish_reason == "error") throw ended_early();
    resize(choices, std::max<int64_t>(std::ssize(choices), piece.choice + 1));
    Whole& choice = nth(choices, piece.choice);
    choice.text += piece.text;
    choice.logprobs.insert(choice.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
    choice.calls.insert(choice.calls.end(), piece.calls.begin(), piece.calls.end());
    if (!piece.finish_reason.empty()) choice.finish_reason = piece.finish_reason;
  }
  Json json = head_of(conversation, "chat.completion", model_.name);
  for (size_t i = 0; i < choices.size(); ++i) {
    Json choice = {{"index", i}};
    if (conversation.is_chat) {
      const bool calls_alone = !choices[i].calls.empty() && choices[i].text.empty();
      choice["message"] = {{"role", "assistant"}, {"content", calls_alone ? Json(nullptr) : Json(choices[i].text)}};
      if (!choices[i].calls.empty()) choice["message"]["tool_calls"] = calls_json(choices[i].calls, std::nullopt);
    } else {
      choice["text"] = choices[i].text;
    }
    choice["logprobs"] = logprobs_of(conversation, choices[i].logprobs);
    choice["finish_reason"] = reason_of(choices[i].finish_reason);
    json["choices"].push_back(std::move(choice));
  }
  json["usage"] = usage_of(conversation);
  return json;
}

std::string Api::first_events(const Conversation& conversation) const {
  if (!conversation.is_chat) return {};
  Json json = head_of(conversation, "chat.completion.chunk", model_.name);
  for (int64_t i = 0; i < conversation.request.choices; ++i)
    json["choices"].push_back({{"index", i},
                               {"delta", {{"role", "assistant"}, {"content", ""}}},
                               {"logprobs", nullptr},
                               {"finish_reason", nullptr}});
  if (conversation.request.include_usage) json["usage"] = nullptr;
  return event(json);
}

std::string Api::events(const Conversation& conversation, const Piece& piece) const {
  if (piece.finish_reason == "error") return event(ended_early().json());
  // The text is empty for a part of a character, and for the token that ended the answer.
  if (piece.text.empty() && piece.logprobs.empty() && piece.calls.empty() && piece.finish_reason.empty()) return {};
  Json json = head_of(conversation, "chat.completion.chunk", model_.name);
  Json choice = {{"index", piece.choice}};
  if (conversation.is_chat) {
    choice["delta"] = Json::object();
    if (!piece.text.empty() || (piece.finish_reason.empty() && piece.calls.empty()))
      choice["delta"]["content"] = piece.text;
    if (!piece.calls.empty()) choice["delta"]["tool_calls"] = calls_json(piece.calls, piece.first_call);
  } else {
    choice["text"] = piece.text;
  }
  choice["logprobs"] = piece.logprobs.empty() ? Json(nullptr) : logprobs_of(conversation, piece.logprobs);
  choice["finish_reason"] = reason_of(piece.finish_reason);
  json["choices"].push_back(std::move(choice));
  if (conversation.request.include_usage) json["usage"] = nullptr;
  return event(json);
}

std::string Api::last_events(const Conversation& conversation) const {
  std::string events;
  if (conversation.request.include_usage) {
    Json json = head_of(conversation, "chat.completion.chunk", model_.name);
    json["usage"] = usage_of(conversation);
    events = event(json);
  }
  return events + "data: [DONE]\n\n";
}

Json Api::model() const {
  return {{"id", model_.name}, {"object", "model"}, {"created", started_}, {"owned_by", "spillway"}};
}

Json Api::models() const { return {{"object", "list"}, {"data", Json::array({model()})}}; }

Json Api::health() const {
  const Scheduler::Load load = scheduler_.load();
  return {{"status", "ok"}, {"decoded", load.decoded}, {"waiting", load.waiting}};
}

}  // namespace spillway::serve
