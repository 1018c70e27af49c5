// `spillway sample`: generates clips with a video transformer.
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_sample(std::span<const std::string> args);

}  // namespace spillway
