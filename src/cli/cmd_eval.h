// `spillway eval`: scores of a model on existing data.
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_eval(std::span<const std::string> args);

}  // namespace spillway
