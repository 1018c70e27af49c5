// A page of a mapped file that cannot be had, because the file was cut short or its disk fails, comes as SIGBUS in
// whatever code reads it. Nothing can be thrown there: the program ends with a message that names the file, and the
// exit status of a failed machine.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace spillway {

// From now on a fault in `bytes` is told as one of this file. Beyond 64 mappings at once, faults are as the system has
// them. Any thread.
void watch_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
// Before it is unmapped. `begin` may be of none that is watched.
void unwatch_mapping(const std::byte* begin);

}  // namespace spillway
