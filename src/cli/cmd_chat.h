// `spillway chat MODEL [--adapter FOLDER] [--system TEXT]`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_chat(std::span<const std::string> args);

}  // namespace spillway
