#include "serve/reply.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "tests/support/chat_model.h"

using namespace spillway;
using namespace spillway::serve;

namespace {

struct Told {
  std::string text, finish_reason;
  std::vector<ToolCall> calls;
};

// Returns what a client is told of an answer in bytes that ends by itself.
Told told(const std::string& said, const OfferedTools& tools) {
  const TemporaryFolder folder;
  spillway::testing::write_chat_tokenizer(folder.path());
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder.path());
  const auto reply = std::make_shared<Reply>(1);
  ChoiceSink sink(reply, 0, tokenizer, {.tools = tools});
  bool wants_more = true;
  for (const char c : said) wants_more = wants_more && sink.take({.id = static_cast<unsigned char>(c)});
  if (wants_more) (void)sink.take({.id = 256, .stopped = true, .shown = false, .is_last = true});
  sink.end(wants_more ? Ending::kDone : Ending::kUnwanted);
  Told all;
  for (const Piece& piece : reply->wait(std::chrono::milliseconds(0))) {
    CHECK((piece.calls.empty() || piece.first_call == std::ssize(all.calls)));
    all.text += piece.text;
    all.calls.insert(all.calls.end(), piece.calls.begin(), piece.calls.end());
    all.finish_reason = piece.finish_reason;
  }
  CHECK(reply->is_complete());
  return all;
}

const std::string kCalls = R"(So: <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>
<tool_call>{"name": "f", "arguments": {}}</tool_call>)";

}  // namespace

TEST_CASE("an answer that calls tools ends with that reason, each call with an id of nine characters") {
  const Told both = told(kCalls, {.format = ToolFormat::kHermes, .ids = "00001"});
  CHECK(both.text == "So:");
  CHECK(both.finish_reason == "tool_calls");
  CHECK(both.calls == std::vector<ToolCall>{{"f", R"({"a":1})", "000010000"}, {"f", "{}", "000010001"}});
  const Told first = told(kCalls, {.format = ToolFormat::kHermes, .one_call = true, .ids = "00001"});
  CHECK(first.calls.size() == 1);
  CHECK(first.finish_reason == "tool_calls");
  const Told none = told(kCalls, {});
  CHECK(none.text == kCalls);
  CHECK(none.finish_reason == "stop");
  CHECK(none.calls.empty());
}
