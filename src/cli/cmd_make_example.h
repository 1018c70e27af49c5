// `spillway make-example`: writes the data and the model of an example, without a download.
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_make_example(std::span<const std::string> args);

}  // namespace spillway
