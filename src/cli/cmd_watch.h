// `spillway watch OUTPUT_DIR`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_watch(std::span<const std::string> args);

}  // namespace spillway
