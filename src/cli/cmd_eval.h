// `spillway eval`: what a model says of data that exist.
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_eval(std::span<const std::string> args);

}  // namespace spillway
