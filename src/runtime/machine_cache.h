// The planner's Machine of this computer: measured once, kept in a file, and read from there by the jobs that follow.
//
// Several processes may use the file at once: each write replaces it whole, and the last one counts. One thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "plan/machine.h"

namespace spillway {

// The Machine of this computer with this device: from the cache file, or measured in a few seconds where the file is
// missing or damaged, was made with another CPU or GPU, or by another version of the program or of the device's
// libraries, or on a busier machine. Capacities are as they are now. Tells the device which of its libraries'
// algorithms were chosen before. The disk lanes may have been measured on other disks than those of `folders`:
// measure_new_disks.
[[nodiscard]] Machine this_machine(const std::vector<std::string>& folders, Device& device = cpu_device());
// For a job that may use the disk tier: where the machine's disk lanes were measured on other disks than those of these
// folders, or on a busier machine, or could not be measured, measures these, for the machine and the cache file. Warns
// where it fails.
void measure_new_disks(Machine& machine, const std::vector<std::string>& folders, const Device& device = cpu_device());
// Writes rates that have just been measured to the cache file. What it knows of jobs' operations stays there, and so do
// its rates where those at hand are of a busier machine. With `forget` nothing stays but the choice of
// algorithms, on which results depend.
void cache_rates(const Machine& measured, const Device& device, bool forget);
// Tells the device which of its libraries' algorithms were chosen before, as the cache file has them: whoever measures
// keeps to those, even where the rest of the file has to be measured anew.
void restore_algorithms(Device& device);

// $XDG_CACHE_HOME/spillway/machine.json, or machine-cuda.json; empty where there is no home.
[[nodiscard]] std::filesystem::path machine_cache_path(DeviceKind kind = DeviceKind::kCpu);
// Writes the cache file; where that is not possible, does nothing.
void cache_machine(const Machine& machine, const Device& device);
// What the cache file says of the machine with this device, its capacities being old; absent where it has to be
// measured.
[[nodiscard]] std::optional<Machine> cached_machine(const Device& device);

}  // namespace spillway
