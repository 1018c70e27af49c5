// The texts are as kernels write them. The names of cores were compared with the output of lscpu 2.38 for the same
// texts; those that it does not know are from Linux' arch/arm64/include/asm/cputype.h.
#include "runtime/cpu_name.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace spillway;

namespace {

// Returns a core's lines in /proc/cpuinfo of 64-bit Arm.
std::string arm_core(int number, std::string_view implementer, std::string_view part) {
  return fmt::format(
      "processor\t: {}\nBogoMIPS\t: 243.75\n"
      "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp\n"
      "CPU implementer\t: {}\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {}\nCPU revision\t: 1\n\n",
      number, implementer, part);
}

}  // namespace

TEST_CASE("a CPU with a model name is called that") {
  CHECK(cpu_name_in("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
                    "model name\t: AMD EPYC 9B45\nstepping\t: 1\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 9B45\n",
                    "") == "AMD EPYC 9B45");
}

TEST_CASE("an Arm CPU is called by the implementer and the part of its cores") {
  CHECK(cpu_name_in(arm_core(0, "0x41", "0xd0c") + arm_core(1, "0x41", "0xd0c"), "") == "Arm Neoverse-N1");
  CHECK(cpu_name_in(arm_core(0, "0x41", "0xd40"), "") == "Arm Neoverse-V1");
  CHECK(cpu_name_in(arm_core(0, "0x41", "0xd4f"), "") == "Arm Neoverse-V2");
  CHECK(cpu_name_in(arm_core(0, "0x41", "0xd08"), "") == "Arm Cortex-A72");
  CHECK(cpu_name_in(arm_core(0, "0x46", "0x001"), "") == "Fujitsu A64FX");
  CHECK(cpu_name_in(arm_core(0, "0x6d", "0xd49"), "") == "Microsoft Cobalt-100");
}

TEST_CASE("an Arm CPU with cores of two kinds has the names of both, each once") {
  CHECK(cpu_name_in(arm_core(0, "0x41", "0xd05") + arm_core(1, "0x41", "0xd05") + arm_core(2, "0x41", "0xd0b") +
                        arm_core(3, "0x41", "0xd0b"),
                    "Radxa ROCK 5B") == "Arm Cortex-A55 and Arm Cortex-A76");
}

TEST_CASE("both kinds of an Apple chip's cores have the chip's name") {
  CHECK(cpu_name_in(arm_core(0, "0x61", "0x022") + arm_core(1, "0x61", "0x023"), "") == "Apple M1");
  CHECK(cpu_name_in(arm_core(0, "0x61", "0x038") + arm_core(1, "0x61", "0x039"), "") == "Apple M2 Max");
}

TEST_CASE("the generic model name that older Arm kernels write says less than the cores") {
  CHECK(cpu_name_in("processor\t: 0\nmodel name\t: ARMv8 Processor rev 0 (v8l)\nCPU implementer\t: 0x4e\n"
                    "CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0x004\nCPU revision\t: 0\n",
                    "Jetson-AGX") == "NVIDIA Carmel");
}

TEST_CASE("a board's name stands for cores that are not known, and numbers where there is no board") {
  const std::string known_and_not = arm_core(0, "0x41", "0xd0b") + arm_core(1, "0x41", "0xfff");
  using namespace std::string_view_literals;
  CHECK(cpu_name_in(known_and_not, "A board of tomorrow\0"sv) == "A board of tomorrow");
  CHECK(cpu_name_in(known_and_not, "") == "Arm Cortex-A76 and Arm CPU part 0xfff");
  CHECK(cpu_name_in(arm_core(0, "0x61", "0x000"), "") == "Apple CPU part 0x000");
  CHECK(cpu_name_in(arm_core(0, "0x99", "0x01a"), "") == "implementer 0x99 CPU part 0x01a");
}

TEST_CASE("a system that tells nothing of its CPU has an unknown one") {
  CHECK(cpu_name_in("", "") == "unknown CPU");
  CHECK(cpu_name_in("processor\t: 0\nmodel name\t:\n", "") == "unknown CPU");
  CHECK(cpu_name_in("processor\t: 0\nCPU implementer\t: none\nCPU part\t: 0x\n", "") == "unknown CPU");
  CHECK(cpu_name_in("processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc\n", "StarFive VisionFive 2") ==
        "StarFive VisionFive 2");
}
