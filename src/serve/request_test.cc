#include "serve/request.h"

#include <doctest/doctest.h>

#include <limits>

using namespace spillway;
using namespace spillway::serve;
using Json = nlohmann::ordered_json;

namespace {

const Choice kDefaults{{.max_new_tokens = 77, .temperature = 1, .top_p = 0.5}, {.repetition = 1.25, .presence = 0.5}};

// The body of a request with more members.
std::string chat(const std::string& more = "") {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (more.empty() ? "" : ", " + more) + "}";
}

}  // namespace

TEST_CASE("tokens that a model never chooses stay so, whatever a request is biased to") {
  Choice defaults = kDefaults;
  defaults.penalties.logit_bias = {{7, -std::numeric_limits<float>::infinity()}};
  const auto bias = parse_chat_request(chat(R"("logit_bias": {"7": 100})"), defaults).choice.penalties.logit_bias;
  REQUIRE(bias.size() == 2);
  CHECK(bias[0].second + bias[1].second == -std::numeric_limits<float>::infinity());
}

TEST_CASE("a request says how it is answered, and what it does not say is as the server has it") {
  const GenerationRequest plain = parse_chat_request(chat(), kDefaults);
  CHECK(plain.conversation == Json::parse(R"({"messages": [{"role": "user", "content": "hi"}]})"));
  CHECK(plain.choice.sampling.temperature == 1);
  CHECK(plain.choice.sampling.top_p == 0.5);
  CHECK(plain.choice.penalties.repetition == 1.25);
  CHECK(plain.choice.penalties.presence == 0.5);
  CHECK(plain.choice.penalties.frequency == 0);
  CHECK(plain.choice.penalties.logit_bias.empty());
  CHECK(!plain.max_tokens);
  CHECK(!plain.has_seed);
  CHECK(!plain.stream);
  CHECK(plain.choices == 1);
  const GenerationRequest full = parse_chat_request(
      chat(R"("model": "x", "max_tokens": 3, "max_completion_tokens": 5, "temperature": 0.25, "top_p": 0.75,
              "top_k": 4, "min_p": 0.125, "repetition_penalty": 1.5, "n": 2, "seed": 9, "stop": ["a", "b"],
              "stream": true, "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 7,
              "user": 3, "frequency_penalty": -2, "presence_penalty": 0, "logit_bias": {"5": -100, "0": 0.5},
              "tool_choice": "auto", "echo": false,
              "response_format": {"type": "text"}, "anything": [1], "tools": [{"b": 1, "a": 2}])"),
      kDefaults);
  CHECK(full.max_tokens == 5);
  CHECK(full.choice.sampling.temperature == 0.25);
  CHECK(full.choice.sampling.top_p == 0.75);
  CHECK(full.choice.sampling.top_k == 4);
  CHECK(full.choice.sampling.min_p == 0.125);
  CHECK(full.choice.penalties.repetition == 1.5);
  CHECK(full.choice.penalties.frequency == -2);
  CHECK(full.choice.penalties.presence == 0);
  CHECK(full.choice.penalties.logit_bias == std::vector<std::pair<int32_t, float>>{{0, 0.5f}, {5, -100.0f}});
  CHECK(full.choices == 2);
  CHECK(full.has_seed);
  CHECK(full.choice.sampling.seed == 9);
  CHECK(full.stop == std::vector<std::string>{"a", "b"});
  CHECK((full.stream && full.include_usage && full.logprobs));
  CHECK(full.top_logprobs == 7);
  CHECK(full.conversation["tools"].dump() == R"([{"b":1,"a":2}])");  // in their order
  CHECK(parse_chat_request(chat(R"("stop": "one")"), kDefaults).stop == std::vector<std::string>{"one"});
}

TEST_CASE("the parts of a message are one text") {
  const GenerationRequest request = parse_chat_request(
      R"({"messages": [{"role": "system"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]},
                       {"role": "assistant", "content": null, "tool_calls": []}]})",
      kDefaults);
  CHECK(request.conversation["messages"][1]["content"] == "ab");
  CHECK(request.conversation["messages"][2]["content"].is_null());
}

TEST_CASE("a request may ask for JSON, by a schema whose properties stay in their order") {
  CHECK(parse_chat_request(chat(), kDefaults).format == AnswerFormat::kText);
  CHECK(parse_chat_request(chat(R"("response_format": {"type": "json_object"})"), kDefaults).format ==
        AnswerFormat::kJsonObject);
  const GenerationRequest request =
      parse_chat_request(chat(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true,
              "schema": {"type": "object", "properties": {"b": true, "a": true}}}})"),
                         kDefaults);
  CHECK(request.format == AnswerFormat::kJsonSchema);
  CHECK(request.schema.dump() == R"({"type":"object","properties":{"b":true,"a":true}})");
}

TEST_CASE("arguments of earlier calls are objects to the template, and calls are looked for where there are tools") {
  const std::string messages = R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}}]}])";
  const GenerationRequest request =
      parse_chat_request(messages + R"(, "tools": [{"a": 1}], "parallel_tool_calls": false})", kDefaults);
  CHECK(request.conversation["messages"][0]["tool_calls"][0]["function"]["arguments"].dump() == R"({"b":1,"a":2})");
  CHECK(request.may_call_tools);
  CHECK(!request.parallel_tool_calls);
  CHECK(!parse_chat_request(messages + R"(, "tools": [{"a": 1}], "tool_choice": "none"})", kDefaults).may_call_tools);
  CHECK(!parse_chat_request(messages + "}", kDefaults).may_call_tools);
  CHECK(!request.must_call_tools);
}

TEST_CASE("calls are forced by a word or by the function's name") {
  const auto choice = [](const std::string& said) {
    return parse_chat_request(
        R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"a": 1}], "tool_choice": )" + said + "}",
        kDefaults);
  };
  const GenerationRequest required = choice(R"("required")");
  CHECK((required.may_call_tools && required.must_call_tools && required.called_tool.empty()));
  for (const char* said :
       {R"({"type": "function", "function": {"name": "f"}})", R"({"type": "function", "name": "f"})"}) {
    const GenerationRequest named = choice(said);
    CHECK((named.may_call_tools && named.must_call_tools && named.called_tool == "f"));
  }
  CHECK_FALSE(choice(R"("auto")").must_call_tools);
}

TEST_CASE("a completion has one prompt or many, as text or as tokens") {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion_request(R"({"prompt": )" + prompt + "}", kDefaults).prompts;
  };
  const std::vector<int32_t> ids = {1, 2};
  CHECK(prompts(R"("a")") == std::vector<TextOrIds>{"a"});
  CHECK(prompts(R"(["a", ""])") == std::vector<TextOrIds>{"a", ""});
  CHECK(prompts("[1, 2]") == std::vector<TextOrIds>{ids});
  CHECK(prompts("[[1, 2], [1, 2]]") == std::vector<TextOrIds>{ids, ids});
}

TEST_CASE("a completion may tell log-probabilities, and its prompt again, with an answer or without") {
  const auto parsed = [](const std::string& more) {
    return parse_completion_request(R"({"prompt": "a")" + more + "}", kDefaults);
  };
  CHECK(!parsed("").logprobs);
  CHECK(!parsed(R"(, "logprobs": null)").logprobs);
  CHECK(parsed(R"(, "logprobs": 0)").logprobs);
  CHECK(parsed(R"(, "logprobs": 5)").top_logprobs == 5);
  CHECK(!parsed(R"(, "echo": null)").echo);
  CHECK(parsed(R"(, "echo": true, "max_tokens": 0)").echo);
  CHECK(parsed(R"(, "echo": true, "max_tokens": 0)").max_tokens == 0);
  for (const char* wrong : {R"(, "max_tokens": 0)", R"(, "logprobs": 21)", R"(, "logprobs": true)", R"(, "echo": 1)"})
    CHECK_THROWS_AS((void)parsed(wrong), RequestError);
}

TEST_CASE("a request that is wrong is refused with the field's name") {
  const std::pair<std::string, std::string> kWrong[] = {
      {"", ""},
      {"[]", ""},
      {"{\"messages\": \"\xFF\"}", ""},
      {"{}", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": [3]})", "messages[0]"},
      {R"({"messages": [{"content": "a"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user", "content": 3}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages[0].content[0].type"},
      {chat(R"("temperature": "hot")"), "temperature"},
      {chat(R"("temperature": -1)"), "temperature"},
      {chat(R"("temperature": 1e400)"), "temperature"},
      {chat(R"("top_p": 2)"), "top_p"},
      {chat(R"("max_tokens": 0)"), "max_tokens"},
      {chat(R"("max_tokens": 1.5)"), "max_tokens"},
      {chat(R"("n": 1000)"), "n"},
      {chat(R"("stop": 3)"), "stop"},
      {chat(R"("stop": ["a", 3])"), "stop"},
      {chat(R"("stream": "yes")"), "stream"},
      {chat(R"("stream_options": 3)"), "stream_options"},
      {chat(R"("seed": "x")"), "seed"},
      {chat(R"("logprobs": 3)"), "logprobs"},
      {chat(R"("top_logprobs": 2)"), "top_logprobs"},
      {chat(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs"},
      {chat(R"("echo": true)"), "echo"},
      {chat(R"("frequency_penalty": 2.5)"), "frequency_penalty"},
      {chat(R"("presence_penalty": "x")"), "presence_penalty"},
      {chat(R"("logit_bias": [1])"), "logit_bias"},
      {chat(R"("logit_bias": {"a": 1})"), "logit_bias.a"},
      {chat(R"("logit_bias": {"-1": 1})"), "logit_bias.-1"},
      {chat(R"("logit_bias": {"3": 101})"), "logit_bias.3"},
      {chat(R"("response_format": {"type": "grammar"})"), "response_format.type"},
      {chat(R"("response_format": {})"), "response_format.type"},
      {chat(R"("response_format": {"type": "json_schema"})"), "response_format.json_schema"},
      {chat(R"("tool_choice": "required")"), "tools"},
      {chat(R"("tool_choice": {"type": "function", "function": {"name": "f"}})"), "tools"},
      {chat(R"("tools": [{}], "tool_choice": "always")"), "tool_choice"},
      {chat(R"("tools": [{}], "tool_choice": {"type": "allowed_tools"})"), "tool_choice.type"},
      {chat(R"("tools": [{}], "tool_choice": {"type": "function", "function": {}})"), "tool_choice.function.name"},
      {chat(R"("tools": [{}], "tool_choice": {"type": "function"})"), "tool_choice.name"},
      {chat(R"("tools": [{}], "response_format": {"type": "json_object"})"), "response_format.type"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "x"}}]}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {chat(R"("tools": 3)"), "tools"}};
  for (const auto& [body, param] : kWrong) {
    CAPTURE(body);
    try {
      (void)parse_chat_request(body, kDefaults);
      FAIL("no error");
    } catch (const RequestError& error) {
      CAPTURE(std::string(error.what()));
      CHECK(error.status() == 400);
      CHECK(error.param().starts_with(param));
      CHECK(error.param().empty() == param.empty());
      const Json json = error.json()["error"];
      CHECK(json["type"] == "invalid_request_error");
      CHECK(json["message"] == error.what());
      CHECK(json["param"].is_null() == param.empty());
    }
  }
  for (const char* prompt : {"3", "[]", "[1, \"a\"]", "[-1]", "[[1], \"a\", 3]", "null", "[99999999999]"})
    CHECK_THROWS_AS((void)parse_completion_request(std::string(R"({"prompt": )") + prompt + "}", kDefaults),
                    RequestError);
  CHECK_THROWS_AS((void)parse_completion_request(R"({"prompt": "a", "best_of": 3})", kDefaults), RequestError);
  CHECK_THROWS_AS((void)parse_chat_request(std::string(100000, '['), kDefaults), RequestError);
}
