// `spillway serve` and its clients: a server of a tiny model, and sockets that do as they like.
#pragma once

#include <doctest/doctest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "tests/support/chat_model.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/working_folder.h"

namespace spillway::testing {

// A socket that is connected to, or listens to, a port of this machine.
class Socket {
 public:
  explicit Socket(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address_.sin_port = htons(static_cast<uint16_t>(port));
  }
  ~Socket() { ::close(fd_); }
  Socket(Socket&&) = delete;

  void connect() const { REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) == 0); }
  void send(const std::string& text) const { REQUIRE(::send(fd_, text.data(), text.size(), 0) > 0); }
  [[nodiscard]] std::string receive() const {
    std::string text(4096, '\0');
    const ssize_t count = ::recv(fd_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return text;
  }
  void send_no_more() const { REQUIRE(::shutdown(fd_, SHUT_WR) == 0); }
  [[nodiscard]] std::string receive_all() const {
    std::string all;
    for (std::string piece = receive(); !piece.empty(); piece = receive()) all += piece;
    return all;
  }
  // A port that is free now.
  static int free_port() {
    Socket socket(0);
    socklen_t size = sizeof(socket.address_);
    auto* const address = reinterpret_cast<sockaddr*>(&socket.address_);
    REQUIRE(::bind(socket.fd_, address, size) == 0);
    REQUIRE(::getsockname(socket.fd_, address, &size) == 0);
    return ntohs(socket.address_.sin_port);
  }

 private:
  int fd_;
  sockaddr_in address_{};
};

// A server of a tiny model in model/.
class Server : public WorkingFolder {
 public:
  // `of_tools` goes before the model's chat template.
  explicit Server(const std::vector<std::string>& more = {}, int64_t positions = 512, const std::string& of_tools = "")
      : port_(Socket::free_port()) {
    std::filesystem::create_directory("model");
    write_chat_model("model", positions);
    const std::filesystem::path chat_template = "model/chat_template.jinja";
    write_file(chat_template, of_tools + read_file(chat_template, 1 << 16));
    std::vector<std::string> args = {"serve", "model/", "--port", std::to_string(port_)};
    args.insert(args.end(), more.begin(), more.end());
    process_ = std::make_unique<Process>(args);
    (void)comes_true([&] { return client().Get("/health"); });
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] Process& process() const { return *process_; }
  [[nodiscard]] httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(std::chrono::seconds(60));
    return client;
  }
  // Status and body.
  [[nodiscard]] std::pair<int, std::string> post(const std::string& path, const std::string& body) const {
    const httplib::Result result = client().Post(path, body, "application/json");
    REQUIRE(result);
    return {result->status, result->body};
  }
  [[nodiscard]] nlohmann::json answer(const std::string& path, const nlohmann::json& request) const {
    const auto response = post(path, request.dump());
    CAPTURE(response.second);
    REQUIRE(response.first == 200);
    return nlohmann::json::parse(response.second);
  }
  [[nodiscard]] nlohmann::json health() const { return nlohmann::json::parse(client().Get("/health")->body); }
  // Waits until so many answers are decoded, or wait.
  [[nodiscard]] bool decodes(int64_t count) const { return comes_to("decoded", count); }
  [[nodiscard]] bool holds(int64_t count) const { return comes_to("waiting", count); }

 private:
  [[nodiscard]] bool comes_to(const char* state, int64_t count) const {
    return comes_true([&] { return health()[state] == count; });
  }

  int port_;
  std::unique_ptr<Process> process_;
};

inline nlohmann::json messages(const std::string& text) {
  return nlohmann::json::array({{{"role", "user"}, {"content", text}}});
}

// The data of server-sent events.
inline std::vector<std::string> data_of(const std::string& body) {
  std::vector<std::string> data;
  for (size_t begin = 0; begin < body.size();) {
    const size_t end = body.find("\n\n", begin);
    REQUIRE(body.substr(begin, 6) == "data: ");
    data.push_back(body.substr(begin + 6, end - begin - 6));
    begin = end + 2;
  }
  return data;
}

inline std::string http_request(const nlohmann::json& body) {
  const std::string text = body.dump();
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(text.size()) + "\r\n\r\n" + text;
}

// Goes on for as long as it is let.
inline nlohmann::json endless(bool stream) {
  return {{"messages", messages("go on")}, {"min_tokens", 1 << 20}, {"max_tokens", 1 << 20}, {"stream", stream}};
}

}  // namespace spillway::testing
