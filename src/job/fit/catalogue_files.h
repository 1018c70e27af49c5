// The files of machines/ in the program: JSON objects that map the stem of a file's name to its content.
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kMachineFiles;
extern const std::string_view kModelFiles;

}  // namespace spillway
