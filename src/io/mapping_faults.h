// Reports faults of mapped files. If a page cannot be read, because the file was cut short or its disk fails, SIGBUS
// comes in whatever code reads it. Nothing can be thrown there: the program ends with a message that names the file,
// and the exit status of a failed machine.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace spillway {

// Installs the handler, which watch_mapping() else does: before a library that takes a signal only where it has no
// handler yet.
void handle_mapping_faults();
// From now on reports a fault in `bytes` as one of this file. Beyond 64 mappings at once, the system handles faults.
// Safe from any thread.
void watch_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
// Must be called before a mapping is unmapped. `begin` may be that of a mapping that is not watched.
void unwatch_mapping(const std::byte* begin);

}  // namespace spillway
