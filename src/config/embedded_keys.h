// The table of unsupported keys, as the build puts it into the program (cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kUnsupportedKeys;  // unsupported_keys.yml

}  // namespace spillway
