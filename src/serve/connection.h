// A client's connection, with limits that keep it harmless: how long it may take to ask, how much it may send, and how
// long it may refuse to read.
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace spillway::serve {

struct ConnectionLimits {
  std::chrono::milliseconds idle{5000};      // between requests
  std::chrono::milliseconds request{30000};  // from the first byte of a request to its last
  std::chrono::milliseconds write{10000};    // without a byte that the client takes
  int64_t request_bytes = 0;                 // headers included
};

// Belongs to the thread that serves it. Owns the socket.
class Connection : public httplib::Stream {
 public:
  Connection(int socket, const ConnectionLimits& limits);
  ~Connection() override;
  Connection(Connection&&) = delete;

  // Waits for the first byte of the next request, and begins to count; false where none comes, or `gives_up` says so.
  [[nodiscard]] bool await_request(const std::function<bool()>& gives_up);
  // The client has not gone, as far as one can know: it has not closed its half of the connection, which may mean that
  // it sends no more and reads on. Then only writing tells.
  [[nodiscard]] bool is_alive() const;
  // No request is read after this one.
  void refuse_more() { is_last_ = true; }
  [[nodiscard]] bool is_last() const { return is_last_; }
  // Lets the client read what was written before the socket closes, where it sent more than was read.
  void end_softly();

  [[nodiscard]] bool is_readable() const override;
  [[nodiscard]] ssize_t read(char* bytes, size_t size) override;
  [[nodiscard]] ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  [[nodiscard]] socket_t socket() const override { return socket_; }
  // What httplib::Stream has in some versions: is_writable() until 0.19, duration() in milliseconds since then, and the
  // waits since 0.20.

  // NOLINTBEGIN(modernize-use-override, clang-diagnostic-inconsistent-missing-override)
  [[nodiscard]] bool is_writable() const;
  [[nodiscard]] bool wait_readable() const;
  [[nodiscard]] bool wait_writable() const;
  [[nodiscard]] time_t duration() const;
  // NOLINTEND(modernize-use-override, clang-diagnostic-inconsistent-missing-override)

 private:
  // Of the time for this request.
  [[nodiscard]] std::chrono::milliseconds left() const;

  int socket_;
  ConnectionLimits limits_;
  std::chrono::steady_clock::time_point deadline_;
  int64_t bytes_left_ = 0;
  bool is_last_ = false;
};

}  // namespace spillway::serve
