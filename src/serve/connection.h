// A client's connection with limits that protect the server: the time for a request, its size, and the time in which
// the client does not read.
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

  // Waits for the first byte of the next request, and starts its time limit. Returns false if none comes, or if
  // `gives_up` returns true.
  [[nodiscard]] bool await_request(const std::function<bool()>& gives_up);
  // Returns false if the client has closed its half of the connection. That may also mean that it sends no more but
  // still reads; only writing to it tells.
  [[nodiscard]] bool is_alive() const;
  // Reads no request after the current one.
  void refuse_more() { is_last_ = true; }
  [[nodiscard]] bool is_last() const { return is_last_; }
  // Lets the client read what was written before the socket closes, if it sent more than was read.
  void end_softly();

  [[nodiscard]] bool is_readable() const override;
  [[nodiscard]] ssize_t read(char* bytes, size_t size) override;
  [[nodiscard]] ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  [[nodiscard]] socket_t socket() const override { return socket_; }
  // Functions of httplib::Stream in some versions: is_writable() until 0.19, duration() in milliseconds since then, and
  // the waits since 0.20.

  // NOLINTBEGIN(modernize-use-override, clang-diagnostic-inconsistent-missing-override)
  [[nodiscard]] bool is_writable() const;
  [[nodiscard]] bool wait_readable() const;
  [[nodiscard]] bool wait_writable() const;
  [[nodiscard]] time_t duration() const;
  // NOLINTEND(modernize-use-override, clang-diagnostic-inconsistent-missing-override)

 private:
  // Returns the time that is left for this request.
  [[nodiscard]] std::chrono::milliseconds left() const;

  int socket_;
  ConnectionLimits limits_;
  std::chrono::steady_clock::time_point deadline_;
  int64_t bytes_left_ = 0;
  bool is_last_ = false;
};

}  // namespace spillway::serve
