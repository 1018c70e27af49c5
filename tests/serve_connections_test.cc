// Connections to `spillway serve`: who may ask, clients that go or do not read, signals and ports.
#include <doctest/doctest.h>
#include <httplib.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/support/serve_client.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("a server of this machine alone is asked by its own names, and one that others reach by any") {
  const Server server, of_all({"--host", "0.0.0.0"});
  const auto status = [](const Server& asked, const char* host) {
    const httplib::Result answer = asked.client().Get("/v1/models", {{"Host", host}});
    REQUIRE(answer);
    return answer->status;
  };
  CHECK(status(server, "localhost:1") == 200);
  CHECK(status(server, "evil.example") == 403);
  CHECK(status(of_all, "models.lan") == 200);
  // The body of a refused request is not read as another request.
  const Socket socket(server.port());
  socket.connect();
  const std::string inner = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
  socket.send("POST /v1/completions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: " + std::to_string(inner.size()) +
              "\r\n\r\n" + inner);
  const std::string answers = socket.receive_all();
  CHECK(answers.starts_with("HTTP/1.1 403"));
  CHECK(answers.find("HTTP/1.1 200") == std::string::npos);
}

TEST_CASE("clients that go, or do not read, cost the others nothing, and who finds no room is told so") {
  const Server server({"--at-once", "2", "--waiting", "1", "--context", "100000"}, 100'000);
  const auto too_many =
      server.post("/v1/completions", R"({"prompt": ["a", "b"], "n": 2, "max_tokens": 1})");  // for ever, not only now
  CHECK(too_many.first == 400);
  CHECK(json::parse(too_many.second)["error"]["param"] == "n");
  CHECK(too_many.second.find("[request: n] expected at most 3 answers at a time, got 4; ask for fewer") !=
        std::string::npos);
  const Socket silent(server.port()), half(server.port());
  silent.connect();
  half.connect();
  half.send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  for (const bool stream : {true, false}) {
    CAPTURE(stream);
    auto deaf = std::make_unique<Socket>(server.port());
    deaf->connect();
    deaf->send(http_request(endless(true)));  // and reads nothing, for which it is cut after ten seconds
    REQUIRE(server.decodes(1));
    auto gone = std::make_unique<Socket>(server.port());
    gone->connect();
    gone->send(http_request(endless(stream)));
    REQUIRE(server.decodes(2));
    // One more waits, and the next one is refused.
    auto waiting = std::make_unique<Socket>(server.port());
    waiting->connect();
    waiting->send(http_request(endless(false)));
    REQUIRE(server.holds(1));
    const httplib::Result refused =
        server.client().Post("/v1/chat/completions", endless(false).dump(), "application/json");
    REQUIRE(refused);
    CHECK(refused->status == 503);
    CHECK(refused->get_header_value("Retry-After") == "1");
    waiting.reset();
    REQUIRE(server.holds(0));
    gone.reset();
    CHECK(server.decodes(1));
    const json answer = server.answer("/v1/chat/completions", {{"messages", messages("hi")}, {"max_tokens", 5}});
    CHECK(answer["choices"].size() == 1);
    deaf.reset();
    REQUIRE(server.decodes(0));
  }
}

TEST_CASE("a client that sends no more and reads on gets its answer, but for one that it would have to be waited for") {
  const Server server({"--context", "100000"}, 100'000);
  const auto answer_of = [&](const std::string& request) {
    const Socket socket(server.port());
    socket.connect();
    socket.send(request);
    socket.send_no_more();
    return socket.receive_all();
  };
  CHECK(answer_of("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").find("\"status\":\"ok\"") != std::string::npos);
  const std::string stream = answer_of(
      http_request({{"messages", messages("hi")}, {"max_tokens", 300}, {"min_tokens", 300}, {"stream", true}}));
  CHECK(stream.find("\"finish_reason\":\"length\"") != std::string::npos);
  CHECK(stream.find("data: [DONE]") != std::string::npos);
  const std::string whole = answer_of(http_request(endless(false)));
  CHECK(whole.starts_with("HTTP/1.1 400"));
  CHECK(whole.find("[connection] expected to be open until the answer is there") != std::string::npos);
  CHECK(server.decodes(0));
}

TEST_CASE("a signal ends the server, whatever is not answered, and that is cut") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    const Server server({"--context", "100000"}, 100'000);
    const Socket stream(server.port()), whole(server.port());
    stream.connect();
    stream.send(http_request(endless(true)));
    whole.connect();
    whole.send(http_request(endless(false)));
    REQUIRE(server.decodes(2));
    CHECK(stream.receive().starts_with("HTTP/1.1 200 OK\r\n"));
    const auto begin = std::chrono::steady_clock::now();
    server.process().signal(signal);
    const Finished ended = server.process().wait();
    CAPTURE(ended.err);
    CHECK(ended.status == 130);
    CHECK(ended.out.empty());
    CHECK(std::chrono::steady_clock::now() - begin < kPatience);
    CHECK(whole.receive().starts_with("HTTP/1.1 503"));
    std::string rest;
    for (std::string more = stream.receive(); !more.empty(); more = stream.receive()) rest += more;
    CHECK(rest.find("server_closed") != std::string::npos);
  }
}

TEST_CASE("a port that is taken is wrong input, and so is an address of another machine") {
  const Server server;
  const Finished second = run_spillway({"serve", "model", "--port", std::to_string(server.port())});
  CHECK(second.status == 2);
  CHECK(second.err.find("[--port] expected a port of '127.0.0.1' that can be listened to") != std::string::npos);
  const Finished elsewhere = run_spillway({"serve", "model", "--host", "192.0.2.1", "--port", "0"});
  CHECK(elsewhere.status == 2);
  CHECK(elsewhere.err.find("[--host] expected an address of this machine, got '192.0.2.1'") != std::string::npos);
}
