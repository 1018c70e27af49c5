// `spillway serve` answers requests as OpenAI's interface does.
#include <doctest/doctest.h>
#include <httplib.h>

#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/serve_client.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("requests that are answered together get what generate gives each of them alone") {
  const Server server({"--at-once", "3", "--context", "512"});
  std::string lines;
  std::vector<json> requests;
  for (int i = 0; i < 10; ++i) {
    json request = {{"messages", messages("question " + std::string(static_cast<size_t>(i) * 30, 'x'))},
                    {"max_tokens", 10 + 7 * i},
                    {"temperature", i % 2 == 0 ? 1.0 : 0.7},
                    {"top_p", i % 3 == 0 ? 0.9 : 1.0},
                    {"repetition_penalty", i % 2 == 0 ? 1.0 : 3.0},
                    {"presence_penalty", i % 3 == 0 ? 1.5 : 0.0},
                    {"frequency_penalty", i % 5 == 0 ? 1.5 : 0.0},
                    {"seed", i}};
    requests.push_back(request);
    request["max_new_tokens"] = request["max_tokens"];
    request.erase("max_tokens");
    lines += request.dump() + "\n";
  }
  server.write("lines.jsonl", lines);
  const Finished generated = run_spillway({"generate", "model", "--lines", "lines.jsonl", "--json-lines"});
  CAPTURE(generated.err);
  REQUIRE(generated.status == 0);
  std::vector<std::future<json>> answers;
  for (const json& request : requests)
    answers.push_back(std::async(std::launch::async, [&] { return server.answer("/v1/chat/completions", request); }));
  std::istringstream expected(generated.out);
  for (size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    std::string line;
    std::getline(expected, line);
    const json alone = json::parse(line), answer = answers[i].get();
    const json& choice = answer["choices"].at(0);
    CHECK(choice["message"]["content"] == alone["text"]);
    CHECK(choice["finish_reason"] == alone["finish_reason"]);
    const bool stopped = alone["finish_reason"] == "stop";
    CHECK(answer["usage"]["prompt_tokens"] == alone["prompt_ids"].size());
    CHECK(answer["usage"]["completion_tokens"] == alone["ids"].size() + (stopped ? 1 : 0));
    CHECK(answer["object"] == "chat.completion");
    CHECK(answer["model"] == "model");
  }
}

namespace {

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a line of prompts with a misspelt option, or without a token, is refused by its number") {
  const Server server;
  const auto refused = [&](const std::string& line) {
    server.write("lines.jsonl", "{\"prompt\": \"hello\"}\n" + line + "\n");
    const Finished run = run_spillway({"generate", "model", "--lines", "lines.jsonl", "--json-lines"});
    CHECK(run.status == 2);
    CHECK(run.out == "");
    return run.err;
  };
  CHECK(holds(refused(R"({"prompt": "hello", "temprature": 1})"),
              "[lines.jsonl:2] expected names of options, got 'temprature'; write 'temperature', or remove it"));
  CHECK(holds(refused(R"({"prompt": "hello", "max_tokens": 9})"), "write 'max_new_tokens', or remove it"));
  server.write("lines.jsonl", R"({"prompt": "hello", "prompt_id": 7, "seeds": 3, "answer": "x", "max_new_tokens": 1})");
  CHECK(run_spillway({"generate", "model", "--lines", "lines.jsonl", "--json-lines"}).status == 0);
  CHECK(holds(refused(R"({"prompt": ""})"), "[lines.jsonl:2] expected a prompt of at least one token, got none"));
}

TEST_CASE("events hold the answer piece by piece") {
  const Server server;
  json request = {{"messages", messages("hello")},
                  {"max_tokens", 40},
                  {"min_tokens", 40},
                  {"seed", 3},
                  {"n", 2},
                  {"logprobs", true}};
  const json whole = server.answer("/v1/chat/completions", request);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  const std::vector<std::string> data = data_of(server.post("/v1/chat/completions", request.dump()).second);
  REQUIRE(data.size() > 10);
  CHECK(data.back() == "[DONE]");
  std::string texts[2];
  json reasons[2], logprobs[2] = {json::array(), json::array()};
  for (size_t i = 0; i + 2 < data.size(); ++i) {
    const json event = json::parse(data[i]);
    CHECK(event["object"] == "chat.completion.chunk");
    CHECK(event["usage"].is_null());
    for (const json& choice : event["choices"]) {
      const size_t index = choice["index"];
      if (i == 0) CHECK(choice["delta"]["role"] == "assistant");
      texts[index] += choice["delta"].value("content", "");
      if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
      if (!choice["logprobs"].is_null())
        for (const json& one : choice["logprobs"]["content"]) logprobs[index].push_back(one);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    CHECK(texts[i] == whole["choices"][i]["message"]["content"]);
    CHECK(reasons[i] == "length");
    CHECK(logprobs[i] == whole["choices"][i]["logprobs"]["content"]);
    CHECK(logprobs[i].size() == 40);
  }
  CHECK(texts[0] != texts[1]);
  const json usage = json::parse(data[data.size() - 2]);
  CHECK(usage["choices"].empty());
  CHECK(usage["usage"] == whole["usage"]);
}

TEST_CASE("completions continue texts and tokens, up to a stop string") {
  const Server server;
  json request = {{"prompt", {"hello", "other"}}, {"max_tokens", 30}, {"min_tokens", 30}, {"temperature", 0}};
  const json both = server.answer("/v1/completions", request);
  CHECK(both["object"] == "text_completion");
  const std::string text = both["choices"][0]["text"];
  request["prompt"] = {'h', 'e', 'l', 'l', 'o'};
  CHECK(server.answer("/v1/completions", request)["choices"][0]["text"] == text);
  // Greedily, the tiny model's bytes may be no characters; what is there can end the answer all the same.
  const std::string stop = text.substr(text.size() / 2, 3);
  request["stop"] = stop;
  const json stopped = server.answer("/v1/completions", request)["choices"][0];
  CHECK(stopped["text"] == text.substr(0, text.find(stop)));
  CHECK(stopped["finish_reason"] == "stop");
}

TEST_CASE("log-probabilities come with those of the likeliest tokens, of the prompt too where it is told again") {
  const Server server;
  const json chat = server.answer("/v1/chat/completions", {{"messages", messages("hello")},
                                                           {"max_tokens", 5},
                                                           {"min_tokens", 5},
                                                           {"temperature", 0},
                                                           {"logprobs", true},
                                                           {"top_logprobs", 3}});
  const json tokens = chat["choices"][0]["logprobs"]["content"];
  REQUIRE(tokens.size() == 5);
  for (const json& token : tokens) {
    REQUIRE(token["top_logprobs"].size() == 3);
    CHECK(token["top_logprobs"][0]["logprob"] == token["logprob"]);  // greedily
    CHECK(token["top_logprobs"][0]["bytes"] == token["bytes"]);
    CHECK(token["top_logprobs"][2]["logprob"] <= token["top_logprobs"][1]["logprob"]);
  }
  // As programs that measure models ask it.
  json request = {{"prompt", "hello there"}, {"max_tokens", 1}, {"temperature", 0}, {"logprobs", 1}, {"echo", true}};
  const json whole = server.answer("/v1/completions", request);
  const json choice = whole["choices"][0], logprobs = choice["logprobs"];
  CHECK(choice["text"].get<std::string>().starts_with("hello there"));
  CHECK(whole["usage"]["completion_tokens"] == 1);
  REQUIRE(logprobs["tokens"].size() == whole["usage"]["prompt_tokens"].get<size_t>() + 1);
  CHECK(logprobs["token_logprobs"][0].is_null());
  CHECK(logprobs["top_logprobs"][0].is_null());
  for (size_t i = 1; i < logprobs["tokens"].size(); ++i) {
    const double logprob = logprobs["token_logprobs"][i];
    const json& top = logprobs["top_logprobs"][i];
    CHECK(top.at(logprobs["tokens"][i].get<std::string>()) == logprob);
    CHECK(logprob < 0);
    CHECK(top.size() <= 2);
  }
  request["max_tokens"] = 0;
  const json alone = server.answer("/v1/completions", request);
  CHECK(alone["choices"][0]["text"] == "hello there");
  CHECK(alone["choices"][0]["finish_reason"] == "length");
  CHECK(alone["usage"]["completion_tokens"] == 0);
  json prompt_alone = logprobs["token_logprobs"];
  prompt_alone.erase(prompt_alone.size() - 1);
  CHECK(alone["choices"][0]["logprobs"]["token_logprobs"] == prompt_alone);
  request.erase("logprobs");
  request["n"] = 2;
  CHECK(server.answer("/v1/completions", request)["choices"][1]["text"] == "hello there");
}

TEST_CASE("penalties and a bias change what is answered") {
  const Server server;
  json request = {{"prompt", "hello"}, {"max_tokens", 30}, {"min_tokens", 30}, {"temperature", 0}, {"logprobs", 0}};
  const auto tokens = [&] { return server.answer("/v1/completions", request)["choices"][0]["logprobs"]["tokens"]; };
  const json plain = tokens();
  request["logit_bias"] = {{"33", 100}};
  const json biased = tokens();
  for (const json& token : biased) CHECK(token == "!");
  request["frequency_penalty"] = 2;  // 30 times less than the bias
  request["presence_penalty"] = 2;
  CHECK(tokens() == biased);
  request.erase("logit_bias");
  const json varied = tokens();
  const auto distinct = [](const json& all) { return std::set<json>(all.begin(), all.end()).size(); };
  CHECK(distinct(varied) > distinct(plain));
  request["logit_bias"] = {{"260", 1}};
  CHECK(server.post("/v1/completions", request.dump()).first == 400);
}

TEST_CASE("answers are JSON where that is asked for, valid under the schema, from generate too") {
  const Server server;
  const json schema = json::parse(R"({"type": "object", "additionalProperties": false, "required": ["name", "kind"],
      "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                     "kind": {"enum": ["cat", "dog"]}}})");
  json request = {
      {"messages", messages("hello")},
      {"max_tokens", 200},
      {"seed", 5},
      {"n", 3},
      {"logprobs", true},
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "pet"}, {"schema", schema}}}}}};
  const json whole = server.answer("/v1/chat/completions", request);
  for (const json& choice : whole["choices"]) {
    const std::string text = choice["message"]["content"];
    CAPTURE(text);
    CHECK(choice["finish_reason"] == "stop");
    const json pet = json::parse(text);
    CHECK((pet["kind"] == "cat" || pet["kind"] == "dog"));
    CHECK(pet["name"].is_string());
    if (pet.contains("age")) CHECK((pet["age"] >= 0 && pet["age"] <= 120));
    CHECK(pet.size() == (pet.contains("age") ? 3 : 2));
  }
  server.write("schema.json", schema.dump());
  server.write("chat.json", messages("hello").dump());
  const Finished generated =
      run_spillway({"generate", "model", "--messages", "chat.json", "--json-schema", "schema.json", "--max-new-tokens",
                    "200", "--temperature", "1", "--seed", "5", "--json"});
  CAPTURE(generated.err);
  REQUIRE(generated.status == 0);
  CHECK(json::parse(generated.out)["text"] == whole["choices"][0]["message"]["content"]);
  CHECK(json::parse(generated.out)["finish_reason"] == "stop");

  request["stream"] = true;
  request["n"] = 1;
  std::string text;
  for (const std::string& data : data_of(server.post("/v1/chat/completions", request.dump()).second)) {
    if (data == "[DONE]") break;
    text += json::parse(data)["choices"][0]["delta"].value("content", "");
  }
  CHECK(text == whole["choices"][0]["message"]["content"]);

  request = {
      {"prompt", "hello"}, {"max_tokens", 300}, {"temperature", 0}, {"response_format", {{"type", "json_object"}}}};
  const json object = server.answer("/v1/completions", request)["choices"][0];
  CHECK(object["text"].get<std::string>().find('{') != std::string::npos);
  if (object["finish_reason"] == "stop") CHECK(json::parse(object["text"].get<std::string>()).is_object());

  const auto error = [&](const char* wrong) {
    request["response_format"] = {{"type", "json_schema"},
                                  {"json_schema", {{"name", "x"}, {"schema", json::parse(wrong)}}}};
    const auto response = server.post("/v1/completions", request.dump());
    CHECK(response.first == 400);
    CHECK(json::parse(response.second)["error"]["param"] == "response_format");
    return json::parse(response.second)["error"]["message"].get<std::string>();
  };
  CHECK(
      error(R"({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 2}}})") ==
      "[request: response_format.json_schema.schema: properties.a] expected keywords of JSON Schema that are supported "
      "here, got 'multipleOf'; leave it out: answers could break it");
  CHECK(error(R"({"enum": []})").find("enum] expected a list of at least one element") != std::string::npos);
  CHECK(error("false").find("expected a schema that some document fulfils") != std::string::npos);
}

TEST_CASE("a forced answer is calls of the functions that are asked for, with arguments of their schemas") {
  const Server server({}, 512, "{% if tools %}<tool_call>{% endif %}");
  const json tools = json::parse(R"([
      {"type": "function", "function": {"name": "set", "parameters": {"type": "object", "required": ["on"],
          "properties": {"on": {"type": "boolean"}}, "additionalProperties": false}}},
      {"type": "function", "function": {"name": "pick", "strict": true, "parameters": {"type": "object",
          "properties": {"kind": {"$ref": "#/$defs/kind"}}, "required": ["kind"], "additionalProperties": false,
          "$defs": {"kind": {"enum": ["cat", "dog"]}}}}}])");
  json request = {{"messages", messages("hello")}, {"max_tokens", 300},           {"seed", 5}, {"tools", tools},
                  {"tool_choice", "required"},     {"parallel_tool_calls", false}};
  const auto check_call = [](const json& call) {
    const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
    CHECK(arguments.size() == 1);
    if (call["function"]["name"] == "set") {
      CHECK(arguments["on"].is_boolean());
    } else {
      CHECK((arguments["kind"] == "cat" || arguments["kind"] == "dog"));
    }
  };
  for (const char* name : {"", "set", "pick"}) {
    if (*name != '\0') request["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
    const json choice = server.answer("/v1/chat/completions", request)["choices"][0];
    CAPTURE(choice.dump());
    CHECK(choice["finish_reason"] == "tool_calls");
    REQUIRE(choice["message"]["tool_calls"].size() == 1);
    const json call = choice["message"]["tool_calls"][0];
    check_call(call);
    if (*name != '\0') CHECK(call["function"]["name"] == name);
  }
  request["tool_choice"] = {{"type", "function"}, {"function", {{"name", "other"}}}};
  const auto response = server.post("/v1/chat/completions", request.dump());
  CHECK(response.first == 400);
  CHECK(json::parse(response.second)["error"]["message"] ==
        "[request: tool_choice] expected a function of tools, got 'other'; add it to them");
}

TEST_CASE("what is wrong with a request is told as OpenAI tells it") {
  const Server server;
  const auto error = [&](const std::string& path, const std::string& body, int status) {
    const auto response = server.post(path, body);
    CAPTURE(body);
    CAPTURE(response.second);
    CHECK(response.first == status);
    const json json_body = json::parse(response.second);
    CHECK(!json_body["error"]["message"].get<std::string>().empty());
    return json_body["error"];
  };
  CHECK(error("/v1/chat/completions", R"({"messages": [], "temperature": 1})", 400)["param"] == "messages");
  CHECK(error("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}], "top_p": "x"})",
              400)["param"] == "top_p");
  CHECK(error("/v1/chat/completions", "no JSON", 400)["param"].is_null());
  CHECK(error("/v1/completions", R"({"prompt": [260]})", 400)["param"] == "prompt");
  CHECK(error("/v1/completions", R"({"prompt": ""})", 400)["param"] == "prompt");
  CHECK(error("/v1/completions", json{{"prompt", std::string(600, 'x')}}.dump(), 400)["code"] ==
        "context_length_exceeded");
  CHECK(error("/v1/embeddings", "{}", 404)["message"] ==
        "[/v1/embeddings] expected a model of embeddings, got one that continues texts; ask a server of embeddings");
  const std::string long_body = R"({"prompt": ")" + std::string(9 << 20, 'x') + "\"}";
  CHECK(error("/v1/completions", long_body, 413)["code"] == "too_large");
  httplib::Client client = server.client();
  const httplib::Result in_chunks = client.Post(
      "/v1/completions",
      [](size_t, httplib::DataSink& sink) {
        const std::string chunk(1 << 20, 'x');
        for (int i = 0; i < 10; ++i) sink.write(chunk.data(), chunk.size());
        sink.done();
        return true;
      },
      "application/json");
  REQUIRE(in_chunks);
  CHECK(in_chunks->status == 413);
  const httplib::Result models = server.client().Get("/v1/models");
  CHECK(json::parse(models->body)["data"][0]["id"] == "model");
  CHECK(server.client().Get("/v1/models/model")->status == 200);
  CHECK(server.client().Get("/v1/models/other")->status == 404);

  // A path of this server by a method that it is not asked by.
  const httplib::Result got = server.client().Get("/v1/chat/completions");
  CHECK(got->status == 405);
  CHECK(got->get_header_value("Allow") == "POST");
  CHECK(json::parse(got->body)["error"]["message"] == "[/v1/chat/completions] expected POST, got GET; send that");
  CHECK(server.client().Post("/health", "{}", "application/json")->status == 405);
  CHECK(error("/v1/completions", "no JSON", 400)["message"] ==
        "[request] expected a JSON object, got text that is not JSON; check that it is complete");
}
