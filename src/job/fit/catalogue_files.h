// The files of machines/ that the program holds: JSON objects of each file's content by the stem of its name.
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kMachineFiles;
extern const std::string_view kModelFiles;

}  // namespace spillway
