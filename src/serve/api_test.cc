#include "serve/api.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "tests/support/chat_model.h"
#include "text/conversation.h"

using namespace spillway;
using namespace spillway::serve;
using nlohmann::json;

namespace {

// Gives every prompt the same answer, byte by byte, and the end.
class SaidTokens final : public TokenSource {
 public:
  explicit SaidTokens(std::string said) : said_(std::move(said)) {}

  std::optional<infer::SequenceId> join(const infer::Prompt&, const infer::SequenceRules&) override {
    next_ = 0;
    return 0;
  }
  std::vector<infer::Chosen> step() override {
    if (next_ == said_.size()) return {{.id = 256, .stopped = true, .shown = false, .is_last = true}};
    return {{.id = static_cast<unsigned char>(said_[next_++])}};
  }
  void leave(infer::SequenceId) override {}
  [[nodiscard]] int64_t max_sequences() const override { return 1; }

 private:
  std::string said_;
  size_t next_ = 0;
};

struct ApiAnswer {
  json whole;
  std::vector<json> deltas;  // of the same answer as a stream, without the first
};

// Returns what a client gets for a request in which it offers the function `add`, of a model whose template shows
// Hermes' calls.
ApiAnswer answer_to(const std::string& said, const std::string& more = "") {
  const TemporaryFolder folder;
  spillway::testing::write_chat_tokenizer(folder.path());
  write_file(folder.path() / "chat_template.jinja",
             "{% if tools %}<tool_call>{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}");
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder.path());
  SaidTokens tokens(said);
  Scheduler scheduler(tokens, 1);
  Api api({.name = "m", .chats = text::chat_templates_of(tokenizer, "m"), .context = 512, .vocab_size = 260}, tokenizer,
          scheduler);
  const Conversation conversation =
      api.begin(R"({"messages": [{"role": "user", "content": "1 + 1?"}], "seed": 1, "max_tokens": 300,
                    "tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}])" +
                    more + "}",
                true);
  std::vector<Piece> pieces;
  while (!conversation.reply->is_complete()) {
    for (Piece& piece : conversation.reply->wait(std::chrono::milliseconds(100))) pieces.push_back(std::move(piece));
  }
  ApiAnswer answer{.whole = json::parse(api.whole(conversation, pieces).dump())};
  for (const Piece& piece : pieces) {
    const std::string event = api.events(conversation, piece);
    if (!event.empty()) answer.deltas.push_back(json::parse(event.substr(6))["choices"][0]);
  }
  return answer;
}

}  // namespace

TEST_CASE("an answer's calls are those of OpenAI's interface, whole and in a stream") {
  const ApiAnswer answer = answer_to(R"(Let me see. <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>)");
  const json choice = answer.whole["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  CHECK(choice["message"]["content"] == "Let me see.");
  const json call = choice["message"]["tool_calls"][0];
  CHECK(call["type"] == "function");
  CHECK(call["id"].get<std::string>().size() == 9);
  CHECK(call["function"] == json{{"name", "add"}, {"arguments", R"({"a":1})"}});
  CHECK_FALSE(call.contains("index"));

  std::string text;
  json streamed;
  for (const json& delta : answer.deltas) {
    text += delta["delta"].value("content", "");
    if (delta["delta"].contains("tool_calls")) streamed = delta["delta"]["tool_calls"];
  }
  CHECK(text == "Let me see.");
  REQUIRE(streamed.size() == 1);
  CHECK(streamed[0]["index"] == 0);
  CHECK(streamed[0]["id"] == call["id"]);
  CHECK(streamed[0]["function"] == call["function"]);
  CHECK(answer.deltas.back()["finish_reason"] == "tool_calls");
}

TEST_CASE("the content of an answer that only calls is null, and without calls it is what the model said") {
  const std::string call = R"(<tool_call>{"name": "add", "arguments": {}}</tool_call>)";
  CHECK(answer_to(call).whole["choices"][0]["message"]["content"].is_null());
  const json plain = answer_to(call, R"(, "tool_choice": "none")").whole["choices"][0];
  CHECK(plain["message"]["content"] == call);
  CHECK_FALSE(plain["message"].contains("tool_calls"));
  CHECK(plain["finish_reason"] == "stop");
}
