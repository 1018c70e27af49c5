// Writes bytes as text in base64 (RFC 4648), with padding.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace spillway
