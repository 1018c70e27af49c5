#include "serve/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace spillway::serve {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Returns true if `events` came within `patience`.
bool await(int socket, short events, Milliseconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  for (;;) {
    const auto left = std::max(std::chrono::duration_cast<Milliseconds>(until - Clock::now()), Milliseconds(0));
    pollfd file{socket, events, 0};
    const int ready = ::poll(&file, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

Connection::Connection(int socket, const ConnectionLimits& limits) : socket_(socket), limits_(limits) {
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // tokens are small, and shall not wait
}

Connection::~Connection() {
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

bool Connection::await_request(const std::function<bool()>& gives_up) {
  constexpr Milliseconds kSlice{100};
  const Clock::time_point until = Clock::now() + limits_.idle;
  while (!gives_up() && Clock::now() < until) {
    if (!await(socket_, POLLIN, kSlice)) continue;
    deadline_ = Clock::now() + limits_.request;
    bytes_left_ = limits_.request_bytes;
    return is_alive();
  }
  return false;
}

bool Connection::is_alive() const {
  char byte = 0;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

void Connection::end_softly() {
  constexpr Milliseconds kPatience{1000};
  ::shutdown(socket_, SHUT_WR);
  const Clock::time_point until = Clock::now() + kPatience;
  std::array<char, 4096> bytes;
  while (Clock::now() < until && await(socket_, POLLIN, kPatience)) {
    if (::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT) <= 0) return;
  }
}

bool Connection::is_readable() const { return await(socket_, POLLIN, Milliseconds(0)); }

bool Connection::is_writable() const { return wait_writable(); }

bool Connection::wait_readable() const { return await(socket_, POLLIN, left()); }

// A write to a client that has gone fails by itself; one that sends no more may read on.
bool Connection::wait_writable() const { return await(socket_, POLLOUT, limits_.write); }

time_t Connection::duration() const { return (limits_.request - left()).count(); }

Milliseconds Connection::left() const { return std::chrono::duration_cast<Milliseconds>(deadline_ - Clock::now()); }

ssize_t Connection::read(char* bytes, size_t size) {
  if (bytes_left_ <= 0 || left().count() <= 0 || !wait_readable()) return -1;
  const ssize_t count = ::recv(socket_, bytes, std::min(size, static_cast<size_t>(bytes_left_)), 0);
  if (count > 0) bytes_left_ -= count;
  return count;
}

ssize_t Connection::write(const char* bytes, size_t size) {
  if (!await(socket_, POLLOUT, limits_.write)) return -1;
  return ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Addresses are not used here.
void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace spillway::serve
