// Folders that are given as a path or as a URI.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace spillway::config {

// Returns the folder of a path, or of a URI of the scheme file (RFC 8089); nothing for a URI of another scheme, or of a
// file on another host.
[[nodiscard]] std::optional<std::filesystem::path> folder_of_uri(std::string_view uri);

}  // namespace spillway::config
