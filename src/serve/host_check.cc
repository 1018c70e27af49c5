#include "serve/host_check.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

namespace spillway::serve {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  return result;
}

// In network order.
std::optional<in_addr> v4_of(const std::string& name) {
  in_addr address{};
  if (::inet_pton(AF_INET, name.c_str(), &address) != 1) return {};
  return address;
}

std::optional<in6_addr> v6_of(const std::string& name) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, name.substr(0, name.find('%')).c_str(), &address) != 1) return {};
  return address;
}

bool is_address(const std::string& name) { return v4_of(name) || v6_of(name); }

bool is_loopback(const std::string& name) {
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  if (const auto v4 = v4_of(name)) return ntohl(v4->s_addr) >> 24 == 127;
  const auto v6 = v6_of(name);
  return v6 && IN6_IS_ADDR_LOOPBACK(&*v6);
}

bool is_any_address(const std::string& name) {
  if (const auto v4 = v4_of(name)) return v4->s_addr == htonl(INADDR_ANY);
  const auto v6 = v6_of(name);
  return v6 && IN6_IS_ADDR_UNSPECIFIED(&*v6);
}

bool is_own_name(const std::string& name) {
  std::array<char, 256> own{};
  return ::gethostname(own.data(), own.size() - 1) == 0 && name == lower(own.data());
}

}  // namespace

std::string host_of(std::string_view header) {
  const size_t bracket = header.find(']');
  if (header.starts_with('[')) return bracket == std::string_view::npos ? "" : lower(header.substr(1, bracket - 1));
  std::string name = lower(header.substr(0, header.find(':')));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_loopback_host(std::string_view name) { return is_loopback(lower(name)); }

bool is_host_answered(std::string_view header, std::string_view bound) {
  const std::string name = host_of(header), own = lower(bound);
  if (name.empty()) return false;
  if (is_loopback(name) || name == own) return true;
  return is_any_address(own) && (is_address(name) || is_own_name(name));
}

}  // namespace spillway::serve
