// `spillway completion SHELL`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_completion(std::span<const std::string> args);

}  // namespace spillway
