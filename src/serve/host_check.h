// Whether a request is meant for this server: a page of another site can make a browser ask it by a name of that site
// which leads here (DNS rebinding), but not by the names below.
#pragma once

#include <string>
#include <string_view>

namespace spillway::serve {

// `header`: the value of Host, a name or an address, perhaps with a port; `bound`: what the server listens to. Answered
// are the loopback names (localhost, names below it, 127.*, ::1) and `bound` itself; where that stands for all
// addresses of the machine (0.0.0.0, ::), any address, which no site can be named by, and the machine's own name.
[[nodiscard]] bool is_host_answered(std::string_view header, std::string_view bound);

// Whether a name or an address stands for this machine alone.
[[nodiscard]] bool is_loopback_host(std::string_view name);

// The name in a Host header, in lower case, without port and brackets; empty where there is none.
[[nodiscard]] std::string host_of(std::string_view header);

}  // namespace spillway::serve
