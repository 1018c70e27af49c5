// Turns a failed system call on a file into an error for a user.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace spillway {

// Throws InputError for errors that a user can put right (no such file, no permission), MachineError for failures of
// the machine (full disk, EIO); both name the path. `action` is an infinitive: "be opened". `error` is an errno.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action, int error);

// Returns the system's text for an errno.
[[nodiscard]] std::string reason_of(int error);

// Throws the same for an error of std::filesystem.
[[noreturn]] void throw_file_error(const std::filesystem::filesystem_error& error);

}  // namespace spillway
