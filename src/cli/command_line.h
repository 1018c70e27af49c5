// What the commands share in reading their arguments with CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace spillway {

// Parses the arguments after the command's name. Answers --help on standard output and then returns false. Throws
// InputError where they are wrong; the app's name stands as the place.
[[nodiscard]] bool parse_command_line(CLI::App& app, std::span<const std::string> args);

}  // namespace spillway
