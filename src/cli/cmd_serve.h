// `spillway serve MODEL [--adapter FOLDER] [--host NAME] [--port N]`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_serve(std::span<const std::string> args);

}  // namespace spillway
