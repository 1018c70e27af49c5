// What a CPU is called, out of what Linux tells of it. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// `cpuinfo` is the text of /proc/cpuinfo, `board` that of /sys/firmware/devicetree/base/model, empty where there is
// none.
//
// The `model name`, "AMD EPYC 9B45". Arm's CPUs have none that tells them apart: what their cores identify themselves
// as, each kind once, "Arm Cortex-A55 and Arm Cortex-A76"; where a kind is not known here, the board, "Apple iMac
// (24-inch, M3, 2023)", or else the numbers, "Arm CPU part 0xd99". "unknown CPU" where nothing of that is told.
[[nodiscard]] std::string cpu_name_in(std::string_view cpuinfo, std::string_view board);

}  // namespace spillway
