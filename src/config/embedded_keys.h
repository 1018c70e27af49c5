// Tables of keys, as the build puts them into the program (cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kUnsupportedKeys;  // unsupported_keys.yml
extern const std::string_view kIgnoredTypes;     // ignored_types.yml
extern const std::string_view kOtherTrainers;    // other_trainers.yml

}  // namespace spillway
