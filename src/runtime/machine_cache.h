// Keeps the planner's Machine of this computer: measured once, and read from a file by the jobs that follow.
//
// Several processes may use the file at once: each write replaces it whole, and the last one counts. For use by one
// thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "plan/machine.h"

namespace spillway {

// Returns the Machine of this computer with this device: from the cache file, or measured in a few seconds if the file
// is missing or damaged, was made with another CPU or GPU, by another version of the program or of the device's
// libraries, or on a busier machine. Capacities are the present ones. Sets the algorithms of the device's libraries
// that were chosen before. The disk lanes may have been measured on other disks than those of `folders`:
// measure_new_disks.
[[nodiscard]] Machine this_machine(const std::vector<std::string>& folders, Device& device = cpu_device());
// Prepares the machine for a job that may use the disk tier: if its disk lanes were measured on other disks than those
// of these folders, or on a busier machine, or could not be measured, measures these and updates the machine and the
// cache file. Warns if it fails.
void measure_new_disks(Machine& machine, const std::vector<std::string>& folders, const Device& device = cpu_device());
// Writes newly measured rates to the cache file. Keeps what the file knows of jobs' operations, and its rates if the
// new ones are from a busier machine. With `forget` only the choice of algorithms is kept, on which results depend.
void cache_rates(const Machine& measured, const Device& device, bool forget);
// Sets the algorithms of the device's libraries that were chosen before, from the cache file: measurements keep to
// those, even if the rest of the file must be measured anew.
void restore_algorithms(Device& device);

// Returns $XDG_CACHE_HOME/spillway/machine.json, or machine-cuda.json; empty if there is no home.
[[nodiscard]] std::filesystem::path machine_cache_path(DeviceKind kind = DeviceKind::kCpu);
// Makes the cache file another one from now on, for as few CPUs as this process has: of several ranks on a machine none
// has all of them, and none replaces what other jobs know of it.
void use_machine_cache_of_ranks();
// Writes the cache file; does nothing if that is not possible.
void cache_machine(const Machine& machine, const Device& device);
// Returns the machine with this device as the cache file describes it, with its old capacities; absent if it must be
// measured.
[[nodiscard]] std::optional<Machine> cached_machine(const Device& device);

}  // namespace spillway
