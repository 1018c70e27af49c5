// Checks that a request is meant for this server. A page of another site can make a browser send requests here by a
// name of that site (DNS rebinding), but not by the names below.
#pragma once

#include <string>
#include <string_view>

namespace spillway::serve {

// Returns true if a request is answered. `header` is the value of Host, a name or an address, perhaps with a port;
// `bound` is the address that the server listens to. Answered are the loopback names (localhost, names below it, 127.*,
// ::1) and `bound` itself; if that stands for all addresses of the machine (0.0.0.0, ::), also any address, since no
// site has one as its name, and the machine's own name.
[[nodiscard]] bool is_host_answered(std::string_view header, std::string_view bound);

// Returns true if a name or an address means only this machine.
[[nodiscard]] bool is_loopback_host(std::string_view name);

// Returns the name in a Host header, in lower case, without port and brackets; empty if there is none.
[[nodiscard]] std::string host_of(std::string_view header);

}  // namespace spillway::serve
