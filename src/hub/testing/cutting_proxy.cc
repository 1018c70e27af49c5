#include "hub/testing/cutting_proxy.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/text.h"

namespace spillway::testing {
namespace {

constexpr int kGlanceMilliseconds = 20;  // between looks at whether the proxy is over

sockaddr_in address_of(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Returns the bytes that are there, at most `count`; none where the other side has gone, or the proxy is over. With
// MSG_PEEK in `flags` the next call returns them again.
std::string receive(int socket, int64_t count, const std::atomic<bool>& is_over, int flags = 0) {
  pollfd waited{socket, POLLIN, 0};
  while (!is_over && poll(&waited, 1, kGlanceMilliseconds) == 0) continue;
  if (is_over) return "";
  std::string bytes(static_cast<size_t>(std::min<int64_t>(count, 1 << 16)), '\0');
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(0, recv(socket, bytes.data(), bytes.size(), flags))));
  return bytes;
}

// Returns a message's first lines up to the empty one; no bytes where it does not come.
std::string receive_head(int socket, const std::atomic<bool>& is_over) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  std::string head;
  while (!head.ends_with(kEnd)) {
    const std::string there = head + receive(socket, 1 << 16, is_over, MSG_PEEK);
    if (there.size() == head.size()) return "";
    const size_t end = there.find(kEnd);
    const size_t wanted = end == std::string::npos ? there.size() : end + kEnd.size();
    head += receive(socket, static_cast<int64_t>(wanted - head.size()), is_over);
  }
  return head;
}

// A body is sent behind its head at once, not when the head is acknowledged.
void send_without_delay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool send_all(int socket, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

CuttingProxy::CuttingProxy(const std::string& target) : target_(std::atoi(target.c_str() + target.rfind(':') + 1)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = address_of(0);
  socklen_t size = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0) std::abort();
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

CuttingProxy::~CuttingProxy() {
  is_over_ = true;
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
}

std::string CuttingProxy::endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

void CuttingProxy::set_cut(std::function<std::optional<int64_t>(const Message&)> cut) {
  const std::lock_guard lock(mutex_);
  cut_ = std::move(cut);
}

void CuttingProxy::accept_all() {
  pollfd waited{listener_, POLLIN, 0};
  while (!is_over_) {
    if (poll(&waited, 1, kGlanceMilliseconds) == 0) continue;
    const int client = accept(listener_, nullptr, nullptr);
    if (client >= 0) threads_.emplace_back([this, client] { relay(client); });
  }
}

void CuttingProxy::relay(int client) {
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = address_of(target_);
  send_without_delay(client);
  send_without_delay(server);
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    for (bool goes_on = true; goes_on && !is_over_;) {
      Message message;
      goes_on = hand_on(client, server, message);
      message.is_answer = true;
      goes_on = goes_on && hand_on(server, client, message);
    }
  }
  close(server);
  close(client);
}

bool CuttingProxy::hand_on(int from, int to, Message& message) {
  const std::string head = receive_head(from, is_over_);
  if (head.empty()) return false;
  if (!message.is_answer) std::istringstream(head) >> message.method >> message.path;
  constexpr std::string_view kLength = "\r\ncontent-length: ";
  const size_t length = lower_case(head).find(kLength);
  message.head_bytes = static_cast<int64_t>(head.size());
  message.body_bytes = length == std::string::npos ? 0 : std::atoll(head.c_str() + length + kLength.size());
  std::optional<int64_t> cut;
  {
    const std::lock_guard lock(mutex_);
    if (cut_) cut = cut_(message);
  }
  const int64_t whole = message.head_bytes + message.body_bytes, end = std::min(cut.value_or(whole), whole);
  if (!send_all(to, head.substr(0, static_cast<size_t>(std::min(end, message.head_bytes))))) return false;
  for (int64_t at = message.head_bytes; at < end;) {
    const std::string bytes = receive(from, end - at, is_over_);
    if (bytes.empty() || !send_all(to, bytes)) return false;
    at += static_cast<int64_t>(bytes.size());
  }
  return !cut;
}

}  // namespace spillway::testing
