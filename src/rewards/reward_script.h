// The file beside this one that Python runs; generated (cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kRewardChild;

}  // namespace spillway
