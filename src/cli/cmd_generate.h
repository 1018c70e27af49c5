// `spillway generate MODEL [--adapter FOLDER] (--prompt TEXT | --messages FILE.json)`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_generate(std::span<const std::string> args);

}  // namespace spillway
