// What a failed system call on a file means to a user.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace spillway {

// Throws InputError for what a user can put right (no such file, no permission), MachineError for what the machine
// failed at (full disk, EIO); both name the path. `action` is an infinitive: "be opened". `error` is an errno.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action, int error);

// What the system says of an errno.
[[nodiscard]] std::string reason_of(int error);

// The same for what std::filesystem throws.
[[noreturn]] void throw_file_error(const std::filesystem::filesystem_error& error);

}  // namespace spillway
