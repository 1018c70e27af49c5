// `spillway merge MODEL --adapter FOLDER --out FOLDER`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_merge(std::span<const std::string> args);

}  // namespace spillway
