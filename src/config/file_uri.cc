#include "config/file_uri.h"

#include <charconv>
#include <string>

namespace spillway::config {
namespace {

// Returns the text with the bytes that %XX stands for.
std::string decoded(std::string_view text) {
  constexpr int kHexadecimal = 16;
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, kHexadecimal).ptr == digits + 2) {
      result += static_cast<char>(byte);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::optional<std::filesystem::path> folder_of_uri(std::string_view uri) {
  constexpr std::string_view kScheme = "file:", kAuthority = "//", kThisHost = "localhost";
  if (!uri.starts_with(kScheme)) {
    const size_t colon = uri.find(':');
    const bool has_scheme = colon != std::string_view::npos && (uri.substr(colon + 1).starts_with(kAuthority) ||
                                                                uri.substr(0, colon).starts_with("databricks"));
    if (has_scheme || uri == "databricks") return std::nullopt;
    return std::filesystem::path(uri);
  }
  std::string_view path = uri.substr(kScheme.size());
  if (path.starts_with(kAuthority)) {
    path.remove_prefix(kAuthority.size());
    if (path.starts_with(kThisHost)) path.remove_prefix(kThisHost.size());
    if (!path.starts_with('/')) return std::nullopt;
  }
  return std::filesystem::path(decoded(path));
}

}  // namespace spillway::config
