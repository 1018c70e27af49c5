#include "serve/guarded_server.h"

#include <doctest/doctest.h>

#include <future>
#include <latch>
#include <thread>

#include "serve/listener.h"

using namespace spillway;
using namespace spillway::serve;
using namespace std::chrono_literals;

namespace {

// Answers "first" at once, and "last" once it is let.
class TwoChunks : public GuardedServer {
 public:
  TwoChunks() : GuardedServer({.port = 0, .limits = {}}) {
    Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_chunked_content_provider("text/plain", [this](size_t offset, httplib::DataSink& sink) {
        if (offset == 0) {
          const bool is_there = sink.write("first", 5);
          begun_.count_down();
          go_on_.wait();
          return is_there;
        }
        const bool is_there = sink.write("last", 4);
        sink.done();
        return is_there;
      });
    });
    bind();
  }
  void await_first() { begun_.wait(); }
  void go_on() { go_on_.count_down(); }

 private:
  std::latch begun_{1}, go_on_{1};
};

std::future<std::string> answer_of(int port) {
  return std::async(std::launch::async, [port] {
    const httplib::Result result = httplib::Client("127.0.0.1", port).Get("/");
    return result ? result->body : "error: " + to_string(result.error());
  });
}

}  // namespace

TEST_CASE("an answer in chunks that has begun is written to its end while the server shuts down") {
  TwoChunks server;
  Listener listener(server);
  std::future<std::string> answer = answer_of(server.port());
  server.await_first();
  std::jthread ending([&] { server.shut_down(60s); });
  std::this_thread::sleep_for(50ms);  // a server that waits for nothing has shut down by then
  server.go_on();
  CHECK(answer.get() == "firstlast");
  ending.join();
  listener.end();
}

TEST_CASE("a server shuts down without an answer that does not end in time") {
  TwoChunks server;
  Listener listener(server);
  std::future<std::string> answer = answer_of(server.port());
  server.await_first();
  server.shut_down(10ms);
  server.go_on();
  CHECK(answer.get() != "firstlast");
  listener.end();
}
