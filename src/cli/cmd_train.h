// `spillway train CONFIG.yml`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_train(std::span<const std::string> args);

}  // namespace spillway
