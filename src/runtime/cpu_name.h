// Derives the name of a CPU from the information that Linux gives. Safe from any thread.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// Returns the name of the CPU. `cpuinfo` is the text of /proc/cpuinfo, `board` that of
// /sys/firmware/devicetree/base/model, empty if there is none.
//
// It is the `model name`, "AMD EPYC 9B45". Arm's CPUs have none that tells them apart, so it is the identity of their
// cores, each kind once, "Arm Cortex-A55 and Arm Cortex-A76"; if a kind is not known here, the board, "Apple iMac
// (24-inch, M3, 2023)", or else the numbers, "Arm CPU part 0xd99". It is "unknown CPU" if none of these is present.
[[nodiscard]] std::string cpu_name_in(std::string_view cpuinfo, std::string_view board);

}  // namespace spillway
