// `spillway chat` as a user runs it.
#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "tests/support/chat_model.h"
#include "tests/support/process.h"
#include "tests/support/standard_input.h"
#include "tests/support/terminal.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::vector<std::string> kSampling = {"--temperature", "1", "--seed", "5", "--max-new-tokens", "12"};

json said(const char* role, const std::string& text) { return {{"role", role}, {"content", text}}; }

// With a model in model/.
class Room : public WorkingFolder {
 public:
  explicit Room(int64_t positions = 512) {
    fs::create_directory("model");
    write_chat_model("model", positions);
  }

  static std::vector<std::string> command(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> args = {name, "model"};
    args.insert(args.end(), kSampling.begin(), kSampling.end());
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static Finished chat(const std::string& input, const std::vector<std::string>& more = {}) {
    const StandardInput standard_input(input);
    return run_spillway(command("chat", more));
  }
  // Returns the answer of `generate` to the messages.
  [[nodiscard]] std::string generated(const json& messages) const {
    write("messages.json", messages.dump());
    const Finished run = run_spillway(command("generate", {"--messages", "messages.json", "--json"}));
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return json::parse(run.out)["text"];
  }
  // Adds a message and its answer to the messages; returns the answer.
  [[nodiscard]] std::string turn(json& messages, const std::string& text) const {
    messages.push_back(said("user", text));
    const std::string answer = generated(messages);
    messages.push_back(said("assistant", answer));
    return answer;
  }
};

}  // namespace

TEST_CASE("a chat answers as generate does with what was said before, and writes it down for generate") {
  const Room room;
  json messages = json::array({said("system", "be short")});
  std::string expected;
  for (const char* text : {"hello", "and a longer line, with \xC3\xA9", "two\nlines"})
    expected += room.turn(messages, text) + "\n";
  const Finished chat = Room::chat(
      "hello\nand a longer line, with \xC3\xA9\n\ntwo\\\nlines\n/save chat.json\n/save chat.json\n/exit\nno more\n",
      {"--system", "be short"});
  CAPTURE(chat.err);
  CHECK(chat.status == 0);
  CHECK(chat.out == expected);
  CHECK(is_valid_utf8(chat.out));
  CHECK(json::parse(room.read("chat.json")) == messages);
  // The seed 5 ends none of these early.
  CHECK(chat.err.find("(the answer was cut after 12 tokens; --max-new-tokens says where)\n") != std::string::npos);
}

TEST_CASE("a chat forgets what it is told to, and the system's message is its user's") {
  const Room room;
  json messages = json::array();
  std::string expected = room.turn(messages, "one") + "\n";
  messages.insert(messages.begin(), said("system", "new"));
  expected += room.turn(messages, "two") + "\n";
  messages = json::array({said("system", "new")});
  expected += room.turn(messages, "three") + "\n";
  messages.erase(messages.begin());
  expected += room.turn(messages, "four") + "\n";
  const Finished chat = Room::chat("one\n/system new\ntwo\n/reset\nthree\n/system\nfour\n/save chat.json");
  CAPTURE(chat.err);
  CHECK(chat.status == 0);
  CHECK(chat.out == expected);
  CHECK(json::parse(room.read("chat.json")) == messages);
}

TEST_CASE("generate warns of positions behind those that the model was made for") {
  const Room room(32);
  for (const auto& [tokens, warns] : {std::pair{"8", false}, {"40", true}}) {
    CAPTURE(tokens);
    const Finished run = run_spillway({"generate", "model", "--prompt", "hello", "--max-new-tokens", tokens, "--json"});
    CAPTURE(run.err);
    CHECK(run.status == 0);
    CHECK((run.err.find("beyond max_position_embeddings, 32") != std::string::npos) == warns);
  }
}

TEST_CASE("what is wrong in a chat is said, the chat goes on, and its exit status tells a script") {
  const Room room;
  room.write("mine.json", "mine");
  const Finished chat = Room::chat("/rest\n/save\n/save mine.json\n/save none/x.json\n/help\n\xE9\n/system \xE9\n" +
                                   std::string(600, 'x') + "\nhello\n/save chat.json\n");
  CAPTURE(chat.err);
  CHECK(chat.status == 2);
  for (
      const char* message :
      {"[spillway chat] expected a command (/system, /reset, /save, /help or /exit), got '/rest'; did you mean /reset?",
       "[/save] expected a file's name, got none", "[/save] expected a name that is free, got 'mine.json'", "none",
       "/exit         leaves, as Ctrl-D does", "[spillway chat] expected UTF-8, got the byte 0xe9 at byte 1",
       "[spillway chat] expected a message that fits into a context of 512 tokens, got 603 with what stands around it"})
    CHECK(chat.err.find(message) != std::string::npos);
  CHECK(room.read("mine.json") == "mine");
  json messages = json::array();
  CHECK(chat.out == room.turn(messages, "hello") + "\n");
  CHECK(json::parse(room.read("chat.json")) == messages);
}

TEST_CASE("a conversation that outgrows the context goes on without its oldest turns, and says so") {
  const Room room;
  const json system = said("system", "s");
  json turns = json::array(), all = json::array({system});
  std::string expected, input;
  size_t forgotten = 0;
  for (const std::string& words :
       {std::string(20, 'a'), std::string(30, 'b'), std::string(40, 'c'), std::string(25, 'd'), std::string(90, 'e')}) {
    turns.push_back(said("user", words));
    // A token for each byte and for the two marks of a message, one for the mark of the answer, 12 for that.
    const auto tokens = [&] {
      size_t count = 3 + 1 + 12;
      for (const json& turn : turns) count += 2 + turn["content"].get_ref<const std::string&>().size();
      return count;
    };
    for (; turns.size() > 1 && tokens() > 128; forgotten += 2) turns.erase(turns.begin(), turns.begin() + 2);
    json shown = json::array({system});
    shown.insert(shown.end(), turns.begin(), turns.end());
    const json answer = said("assistant", room.generated(shown));
    all.insert(all.end(), {turns.back(), answer});
    turns.push_back(answer);
    expected += answer["content"].get<std::string>() + "\n";
    input += words + "\n";
  }
  REQUIRE(forgotten == 8);  // all that is not the last turn
  const Finished chat = Room::chat(input + "/save chat.json\n", {"--context", "128", "--system", "s"});
  CAPTURE(chat.err);
  CHECK(chat.status == 0);
  CHECK(chat.out == expected);
  CHECK(json::parse(room.read("chat.json")) == all);
  CHECK(chat.err.find("(the conversation no longer fits into the context: the 2 oldest messages were left out from "
                      "this answer on; /reset begins anew") != std::string::npos);
}

TEST_CASE("a chat without a template, or beyond what the model was made for, does not begin") {
  const Room room;
  CHECK(Room::chat("", {"--context", "513"}).err.find("expected at most the 512 tokens") != std::string::npos);
  fs::remove("model/chat_template.jinja");
  const Finished chat = Room::chat("hello\n");
  CHECK(chat.status == 2);
  CHECK(chat.err.find("expected a chat template") != std::string::npos);
}

TEST_CASE("at a terminal lines are edited, and Ctrl-C ends an answer first and the chat then") {
  const Room room(100'000);
  const std::vector<std::string> command = {"chat", "model", "--context", "100000", "--max-new-tokens", "100000"};
  Terminal terminal(command);
  CAPTURE(terminal.screen());
  REQUIRE(terminal.shows("> "));
  terminal.type(
      "/savo\x08"
      "e chat.json\r");
  CHECK(terminal.shows("(saved to chat.json)"));
  REQUIRE(terminal.shows("> "));
  terminal.type("h\xC3\xA9llo\r");
  REQUIRE(terminal.shows("\n"));
  REQUIRE(terminal.grows(500));
  terminal.type("\x03");
  CHECK(terminal.shows("(the answer was ended)"));
  REQUIRE(terminal.shows("> "));
  terminal.type("\x10\x10\r");  // Ctrl-P: the line before the last one
  CHECK(terminal.shows("(saved to chat.json)"));
  REQUIRE(terminal.shows("> "));
  const json saved = json::parse(room.read("chat.json"));
  REQUIRE(saved.size() == 2);
  CHECK(saved[0]["content"] == "h\xC3\xA9llo");
  CHECK(!saved[1]["content"].get<std::string>().empty());
  terminal.type("half a line\x03");
  CHECK(terminal.wait() == 130);
}

TEST_CASE("at a terminal Ctrl-D leaves, and what a model writes does nothing to it") {
  const Room room;
  Terminal terminal({"chat", "model", "--temperature", "1", "--seed", "7", "--max-new-tokens", "400"});
  REQUIRE(terminal.shows("> "));
  terminal.type("hello\r");
  REQUIRE(terminal.shows("hello"));
  REQUIRE(terminal.shows("\n"));
  const size_t begin = terminal.screen().find("\n", terminal.screen().rfind("hello"));
  REQUIRE(terminal.shows("\n> "));
  const std::string answer = terminal.screen().substr(begin, terminal.screen().rfind("\n> ") - begin);
  CHECK(answer.size() > 20);
  for (const char c : answer) CHECK((static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t'));
  terminal.type("\x04");
  CHECK(terminal.wait() == 0);
}

TEST_CASE("a Ctrl-D that is typed before there is a prompt to read it is not lost") {
  const Room room;
  {  // while the model is read
    Terminal terminal({"chat", "model"});
    REQUIRE(terminal.keeps_end_of_file());
    terminal.type("\x04");
    CHECK(terminal.wait() == 0);
    CHECK(terminal.end_of_file() == '\x04');  // as it was
  }
  {  // behind a line, while that is answered
    Terminal terminal({"chat", "model", "--temperature", "1", "--max-new-tokens", "50"});
    REQUIRE(terminal.keeps_end_of_file());
    terminal.type("hello\r\x04");
    CHECK(terminal.wait() == 0);
    CHECK(terminal.screen().find("> hello") != std::string::npos);
  }
}
