#include "serve/request.h"

#include <charconv>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"

namespace spillway::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kWhere = "request";
constexpr int64_t kMaxTokens = 1 << 20, kMaxTopK = 1 << 30, kMaxTopLogprobs = 20;
constexpr double kMaxBias = 100;
constexpr size_t kMaxStops = 16;

// "[request: stop.0] expected ..." names the field stop.0, "[request] ..." none.
RequestError request_error(const InputError& error) {
  std::string message = error.what();
  const std::string start = fmt::format("[{}: ", kWhere), file = "correct the file";
  std::string param;
  if (message.starts_with(start)) param = message.substr(start.size(), message.find("] expected") - start.size());
  if (message.ends_with(file)) message.replace(message.size() - file.size(), file.size(), "correct the request");
  return {400, message, std::move(param)};
}

// Throws RequestError for fields that ask for something unsupported; they are ignored if they ask for nothing.
void refuse_unsupported(const JsonField& root) {
  for (const char* name : {"suffix", "functions", "function_call", "audio", "guided_json", "guided_regex",
                           "guided_choice", "guided_grammar", "grammar", "json_schema", "use_beam_search"}) {
    const JsonField field = root[name];
    if (field.is_in_use()) throw field.bad("it to be left out", "remove it: this server has no such thing");
  }
}

// Returns the function that a forced choice names, as OpenAI writes it for chats, or for responses.
std::string called_function(const JsonField& choice) {
  const char* const kAdvice = "write none, auto, required, or a function";
  if (choice["type"].string() != "function") throw choice["type"].bad("function", kAdvice);
  const JsonField function = choice.has("function") ? choice["function"] : choice;
  return function["name"].string();
}

void read_tool_choice(const JsonField& root, GenerationRequest& request) {
  const JsonField tools = root["tools"], choice = root["tool_choice"];
  const std::string word = choice.is_null() ? "auto" : choice.is_string() ? choice.string() : "";
  request.may_call_tools = tools.is_in_use() && word != "none";
  request.must_call_tools = word.empty() || word == "required";
  request.parallel_tool_calls = root["parallel_tool_calls"].boolean_or(true);
  if (word == "none" || word == "auto") return;
  if (!request.must_call_tools) throw choice.bad("none, auto, required or a function", "write one of them");
  if (!tools.is_in_use()) throw tools.bad("at least one function beside tool_choice", "add it");
  if (word.empty()) request.called_tool = called_function(choice);
}

void read_format(const JsonField& format, std::string_view body, GenerationRequest& request) {
  if (format.is_null()) return;
  const std::string& type = format["type"].string();
  if (type == "json_object") {
    request.format = AnswerFormat::kJsonObject;
  } else if (type == "json_schema") {
    if (!format["json_schema"].has("schema")) throw format["json_schema"].bad("an object with a schema", "write one");
    request.format = AnswerFormat::kJsonSchema;
    // The order of properties is that of the answer.
    request.schema = parse_json<Json>(body, kWhere)["response_format"]["json_schema"]["schema"];
  } else if (type != "text") {
    throw format["type"].bad("text, json_object or json_schema", "write one of them");
  }
}

std::vector<std::string> read_stop(const JsonField& field) {
  if (field.is_null()) return {};
  std::vector<std::string> stops;
  if (field.is_string()) {
    stops.push_back(field.string());
  } else {
    stops = field.strings_or_none();
  }
  std::erase(stops, "");
  if (stops.size() > kMaxStops) throw field.bad(fmt::format("at most {} strings", kMaxStops), "leave some out");
  return stops;
}

// Ids, which are names in JSON, and what is added to their logits.
std::vector<std::pair<int32_t, float>> read_logit_bias(const JsonField& field) {
  std::vector<std::pair<int32_t, float>> biases;
  if (field.is_null()) return biases;
  for (const auto& [name, bias] : field.members()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0)
      throw bias.bad("a token id as its name", "write ids of the model's tokens");
    biases.emplace_back(id, static_cast<float>(bias.real(-kMaxBias, kMaxBias)));
  }
  return biases;
}

infer::Penalties read_penalties(const JsonField& root, const infer::Penalties& defaults) {
  using infer::kMaxAnswerPenalty, infer::kMinRepetitionPenalty, infer::kMaxRepetitionPenalty;
  const auto of_answer = [&](const char* name, double otherwise) {
    return root[name].real_or(otherwise, -kMaxAnswerPenalty, kMaxAnswerPenalty);
  };
  infer::Penalties penalties{.repetition = root["repetition_penalty"].real_or(
                                 defaults.repetition, kMinRepetitionPenalty, kMaxRepetitionPenalty),
                             .frequency = of_answer("frequency_penalty", defaults.frequency),
                             .presence = of_answer("presence_penalty", defaults.presence),
                             .logit_bias = read_logit_bias(root["logit_bias"])};
  const auto& own = defaults.logit_bias;  // of tokens that the model never chooses
  penalties.logit_bias.insert(penalties.logit_bias.end(), own.begin(), own.end());
  return penalties;
}

// Reads the fields that both kinds of request have.
GenerationRequest read_common(const JsonField& root, std::string_view body, const Choice& defaults, bool echo) {
  GenerationRequest request{.echo = echo};
  refuse_unsupported(root);
  request.choices = root["n"].integer_or(1, 1, kMaxChoices);
  const JsonField best_of = root["best_of"];
  if (best_of.integer_or(request.choices, 1, kMaxChoices) != request.choices)
    throw best_of.bad("as many as n", "remove it: this server does not choose among answers");
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const JsonField field = root[name]; !field.is_null())
      request.max_tokens = field.integer(echo ? 0 : 1, kMaxTokens);
  }
  request.choice = defaults;
  infer::Sampling& sampling = request.choice.sampling;
  sampling.min_new_tokens = root["min_tokens"].integer_or(sampling.min_new_tokens, 0, kMaxTokens);
  sampling.temperature = root["temperature"].real_or(sampling.temperature, 0, 100);
  sampling.top_p = root["top_p"].real_or(sampling.top_p, 0, 1);
  sampling.top_k = root["top_k"].integer_or(sampling.top_k, -1, kMaxTopK);  // -1: all, as vLLM has it
  sampling.min_p = root["min_p"].real_or(sampling.min_p, 0, 1);
  request.choice.penalties = read_penalties(root, defaults.penalties);
  if (const JsonField seed = root["seed"]; !seed.is_null()) {
    sampling.seed = static_cast<uint64_t>(seed.integer(std::numeric_limits<int64_t>::min(), INT64_MAX));
    request.has_seed = true;
  }
  request.stop = read_stop(root["stop"]);
  read_format(root["response_format"], body, request);
  request.stream = root["stream"].boolean_or(false);
  request.include_usage = root["stream_options"].object_or_empty()["include_usage"].boolean_or(false);
  return request;
}

// A text, or a list of parts whose texts are joined.
Json content_of(const JsonField& content) {
  if (content.is_null()) return nullptr;
  if (content.is_string()) return content.string();
  if (!content.is_array()) throw content.bad("a text or a list of parts", "correct it");
  std::string text;
  for (const JsonField& part : content.elements()) {
    if (part["type"].string_or("text") != "text")
      throw part["type"].bad("'text'", "remove it: models of this server read text alone");
    text += part["text"].string();
  }
  return text;
}

// Makes objects of the arguments of earlier calls, which are texts in OpenAI's interface: templates print them.
void read_calls(const std::vector<JsonField>& messages, Json& json) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["tool_calls"].is_null()) continue;
    const std::vector<JsonField> calls = messages[i]["tool_calls"].elements();
    for (size_t call = 0; call < calls.size(); ++call) {
      const JsonField arguments = calls[call]["function"]["arguments"];
      if (!arguments.is_string()) continue;
      Json& read = json[i]["tool_calls"][call]["function"]["arguments"];
      read = parse_json<Json>(arguments.string(), kWhere);
      if (!read.is_object()) throw arguments.bad("the text of a JSON object", "correct it");
    }
  }
}

template <typename Read>
GenerationRequest parse(std::string_view body, const Read& read) {
  try {
    const JsonDocument document(body, std::string(kWhere));
    return read(document.root());
  } catch (const InputError& error) {
    throw request_error(error);
  }
}

bool is_of_integers(const std::vector<JsonField>& elements) {
  return !elements.empty() && !elements[0].is_string() && !elements[0].is_array();
}

std::vector<int32_t> read_ids(const std::vector<JsonField>& elements) {
  std::vector<int32_t> ids;
  for (const JsonField& id : elements) ids.push_back(static_cast<int32_t>(id.integer(0, INT32_MAX)));
  return ids;
}

// A text, token ids, or a list of either.
std::vector<TextOrIds> read_prompts(const JsonField& prompt) {
  if (prompt.is_string()) return {prompt.string()};
  if (!prompt.is_array()) throw prompt.bad("a text, a list of texts, or token ids", "write one");
  const std::vector<JsonField> elements = prompt.elements();
  if (is_of_integers(elements)) return {read_ids(elements)};
  std::vector<TextOrIds> prompts;
  for (const JsonField& element : elements) {
    if (element.is_array()) {
      prompts.emplace_back(read_ids(element.elements()));
    } else {
      prompts.emplace_back(element.string());
    }
  }
  if (prompts.empty()) throw prompt.bad("at least one prompt", "write one");
  return prompts;
}

}  // namespace

Json RequestError::json() const {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const char* type = status_ >= 500 ? "server_error" : "invalid_request_error";
  return {{"error", {{"message", what()}, {"type", type}, {"param", or_null(param_)}, {"code", or_null(code_)}}}};
}

GenerationRequest parse_chat_request(std::string_view body, const Choice& defaults) {
  return parse(body, [&](const JsonField& root) {
    if (root["echo"].is_in_use()) throw root["echo"].bad("it to be left out", "ask /v1/completions");
    GenerationRequest request = read_common(root, body, defaults, false);
    request.logprobs = root["logprobs"].boolean_or(false);
    request.top_logprobs = root["top_logprobs"].integer_or(0, 0, kMaxTopLogprobs);
    if (request.top_logprobs > 0 && !request.logprobs)
      throw root["top_logprobs"].bad("0 without logprobs", "write logprobs: true, too");
    const std::vector<JsonField> messages = root["messages"].elements();
    if (messages.empty()) throw root["messages"].bad("at least one message", "write one");
    // The order of members may matter to a template.
    const Json whole = parse_json<Json>(body, kWhere);
    Json& conversation = request.conversation = Json::object();
    conversation["messages"] = whole["messages"];
    for (size_t i = 0; i < messages.size(); ++i) {
      (void)messages[i]["role"].string();
      if (messages[i].has("content")) conversation["messages"][i]["content"] = content_of(messages[i]["content"]);
    }
    for (const char* name :
         {"tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"}) {
      if (!root[name].is_null()) conversation[name] = whole[name];
    }
    if (!root["tools"].is_null()) (void)root["tools"].elements();
    if (!root["documents"].is_null()) (void)root["documents"].elements();
    read_calls(messages, conversation["messages"]);
    read_tool_choice(root, request);
    if (request.may_call_tools && request.format != AnswerFormat::kText)
      throw root["response_format"]["type"].bad("text beside tools",
                                                "leave out one of them, or write tool_choice: none");
    (void)root["add_generation_prompt"].boolean_or(true);
    (void)root["continue_final_message"].boolean_or(false);
    (void)root["chat_template_kwargs"].object_or_empty();
    return request;
  });
}

GenerationRequest parse_completion_request(std::string_view body, const Choice& defaults) {
  return parse(body, [&](const JsonField& root) {
    GenerationRequest request = read_common(root, body, defaults, root["echo"].boolean_or(false));
    request.logprobs = !root["logprobs"].is_null();
    request.top_logprobs = root["logprobs"].integer_or(0, 0, kMaxTopLogprobs);
    request.prompts = read_prompts(root["prompt"]);
    if (std::ssize(request.prompts) * request.choices > kMaxChoices)
      throw root["prompt"].bad(fmt::format("at most {} answers at once", kMaxChoices), "ask for fewer");
    return request;
  });
}

}  // namespace spillway::serve
