#include "runtime/cpu_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

namespace spillway {
namespace {

// An Arm core as its register MIDR_EL1 identifies it.
struct Core {
  int implementer = 0;
  int part = 0;
  bool operator==(const Core&) const = default;
};

struct Implementer {
  int id;
  std::string_view name;
};

struct Part {
  Core core;
  std::string_view name;
};

// Numbers are from Linux' arch/arm64/include/asm/cputype.h, names from lscpu; Apple's cores are named after the chip,
// since both kinds of cores of a chip are.
constexpr std::array kImplementers = {
    Implementer{0x41, "Arm"},       Implementer{0x43, "Cavium"},    Implementer{0x46, "Fujitsu"},
    Implementer{0x48, "HiSilicon"}, Implementer{0x4e, "NVIDIA"},    Implementer{0x51, "Qualcomm"},
    Implementer{0x61, "Apple"},     Implementer{0x6d, "Microsoft"}, Implementer{0xc0, "Ampere"}};

constexpr std::array kParts = {
    Part{{0x41, 0xd03}, "Cortex-A53"},  Part{{0x41, 0xd05}, "Cortex-A55"},  Part{{0x41, 0xd07}, "Cortex-A57"},
    Part{{0x41, 0xd08}, "Cortex-A72"},  Part{{0x41, 0xd09}, "Cortex-A73"},  Part{{0x41, 0xd0a}, "Cortex-A75"},
    Part{{0x41, 0xd0b}, "Cortex-A76"},  Part{{0x41, 0xd0c}, "Neoverse-N1"}, Part{{0x41, 0xd0d}, "Cortex-A77"},
    Part{{0x41, 0xd40}, "Neoverse-V1"}, Part{{0x41, 0xd41}, "Cortex-A78"},  Part{{0x41, 0xd42}, "Cortex-A78AE"},
    Part{{0x41, 0xd44}, "Cortex-X1"},   Part{{0x41, 0xd46}, "Cortex-A510"}, Part{{0x41, 0xd47}, "Cortex-A710"},
    Part{{0x41, 0xd48}, "Cortex-X2"},   Part{{0x41, 0xd49}, "Neoverse-N2"}, Part{{0x41, 0xd4d}, "Cortex-A715"},
    Part{{0x41, 0xd4e}, "Cortex-X3"},   Part{{0x41, 0xd4f}, "Neoverse-V2"}, Part{{0x41, 0xd80}, "Cortex-A520"},
    Part{{0x41, 0xd81}, "Cortex-A720"}, Part{{0x41, 0xd82}, "Cortex-X4"},   Part{{0x41, 0xd84}, "Neoverse-V3"},
    Part{{0x41, 0xd85}, "Cortex-X925"}, Part{{0x41, 0xd87}, "Cortex-A725"}, Part{{0x41, 0xd8e}, "Neoverse-N3"},
    Part{{0x43, 0x0af}, "ThunderX2"},   Part{{0x46, 0x001}, "A64FX"},       Part{{0x48, 0xd01}, "Kunpeng-920"},
    Part{{0x4e, 0x004}, "Carmel"},      Part{{0x51, 0x001}, "Oryon"},       Part{{0x61, 0x022}, "M1"},
    Part{{0x61, 0x023}, "M1"},          Part{{0x61, 0x024}, "M1 Pro"},      Part{{0x61, 0x025}, "M1 Pro"},
    Part{{0x61, 0x028}, "M1 Max"},      Part{{0x61, 0x029}, "M1 Max"},      Part{{0x61, 0x032}, "M2"},
    Part{{0x61, 0x033}, "M2"},          Part{{0x61, 0x034}, "M2 Pro"},      Part{{0x61, 0x035}, "M2 Pro"},
    Part{{0x61, 0x038}, "M2 Max"},      Part{{0x61, 0x039}, "M2 Max"},      Part{{0x6d, 0xd49}, "Cobalt-100"},
    Part{{0xc0, 0xac3}, "AmpereOne"},   Part{{0xc0, 0xac4}, "AmpereOne A"}};

// Returns the value of a line `key : value`, if it is one.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  const size_t colon = line.find(':');
  if (!line.starts_with(key) || colon == std::string_view::npos) return std::nullopt;
  if (line.substr(key.size(), colon - key.size()).find_first_not_of(" \t") != std::string_view::npos)
    return std::nullopt;
  const size_t start = line.find_first_not_of(" \t", colon + 1);
  return start == std::string_view::npos ? "" : line.substr(start);
}

// Parses "0xd0c". Returns -1, which no table has, if the text is no such number.
int parse_number(std::string_view text) {
  int number = -1;
  if (text.starts_with("0x")) std::from_chars(text.data() + 2, text.data() + text.size(), number, 16);
  return number;
}

std::string implementer_name(int id) {
  const auto found =
      std::find_if(kImplementers.begin(), kImplementers.end(), [&](const Implementer& one) { return one.id == id; });
  return found == kImplementers.end() ? fmt::format("implementer {:#x}", id) : std::string(found->name);
}

struct CoreNames {
  std::vector<std::string> names;  // each once, in the order of the cores
  bool are_known = true;           // all of them by kParts
};

void add_core(CoreNames& found, Core core) {
  const auto part = std::find_if(kParts.begin(), kParts.end(), [&](const Part& one) { return one.core == core; });
  const bool is_known = part != kParts.end();
  std::string name = implementer_name(core.implementer) +
                     (is_known ? fmt::format(" {}", part->name) : fmt::format(" CPU part {:#05x}", core.part));
  found.are_known = found.are_known && is_known;
  if (std::find(found.names.begin(), found.names.end(), name) == found.names.end())
    found.names.push_back(std::move(name));
}

}  // namespace

std::string cpu_name_in(std::string_view cpuinfo, std::string_view board) {
  CoreNames cores;
  Core core;
  std::string model;
  std::istringstream stream{std::string(cpuinfo)};
  for (std::string line; std::getline(stream, line);) {
    if (const auto name = value_of(line, "model name"); name && model.empty()) model = *name;
    if (const auto implementer = value_of(line, "CPU implementer")) core.implementer = parse_number(*implementer);
    if (const auto part = value_of(line, "CPU part")) {
      core.part = parse_number(*part);
      if (core.implementer >= 0 && core.part >= 0) add_core(cores, core);
    }
  }
  board = board.substr(0, board.find('\0'));
  if (!cores.names.empty() && (cores.are_known || board.empty()))
    return fmt::format("{}", fmt::join(cores.names, " and "));
  if (cores.names.empty() && !model.empty()) return model;
  return board.empty() ? "unknown CPU" : std::string(board);
}

}  // namespace spillway
