// `spillway make-example`: what an example trains on, and with, without a download.
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_make_example(std::span<const std::string> args);

}  // namespace spillway
