// Stands between a client and a server on this machine, and ends connections in the middle of what they exchange.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace spillway::testing {

// A request, or the answer to it, when its head is known.
struct Message {
  bool is_answer = false;
  std::string method, path;  // of the request
  int64_t head_bytes = 0, body_bytes = 0;
};

class CuttingProxy {
 public:
  // `target`: "http://127.0.0.1:8000".
  explicit CuttingProxy(const std::string& target);
  ~CuttingProxy();
  CuttingProxy(CuttingProxy&&) = delete;

  [[nodiscard]] std::string endpoint() const;
  // Called for each message; returns after how many of its bytes both connections end, or nullopt: they go on. Must not
  // call back.
  void set_cut(std::function<std::optional<int64_t>(const Message&)> cut);

 private:
  void accept_all();
  void relay(int client);
  // Hands a message on. Returns false if the connections are to end.
  bool hand_on(int from, int to, Message& message);

  int target_ = 0, port_ = 0, listener_ = -1;
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::function<std::optional<int64_t>(const Message&)> cut_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace spillway::testing
