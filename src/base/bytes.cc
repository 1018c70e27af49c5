#include "base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace spillway {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits = {Unit{"", 1.0},       Unit{"B", 1.0},      Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
                               Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}, Unit{"KB", 1e3},     Unit{"MB", 1e6},
                               Unit{"GB", 1e9},     Unit{"TB", 1e12}};

// `rounded` makes a whole number of what the last digit counts.
std::string formatted(int64_t bytes, double (*rounded)(double)) {
  const auto number = static_cast<double>(bytes), magnitude = std::abs(number);
  if (magnitude < 1024) return fmt::format("{} B", bytes);
  if (magnitude < 0x1p20) return fmt::format("{:.1f} KiB", rounded(number / 0x1p10 * 10) / 10);
  if (magnitude < 0x1p30) return fmt::format("{:.1f} MiB", rounded(number / 0x1p20 * 10) / 10);
  return fmt::format("{:.2f} GiB", rounded(number / 0x1p30 * 100) / 100);
}

}  // namespace

std::string format_bytes(int64_t bytes) { return formatted(bytes, std::nearbyint); }
std::string format_bytes_up(int64_t bytes) { return formatted(bytes, std::ceil); }

int64_t parse_bytes(std::string_view text, int64_t whole, std::string_view where) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, text.data() + text.size() - end);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  double scale = 0;
  if (unit == "%" && number <= 100) scale = static_cast<double>(whole) / 100;
  for (const Unit& known : kUnits) {
    if (unit == known.name) scale = known.bytes;
  }
  const double bytes = number * scale;
  if (error != std::errc() || scale == 0 || !std::isfinite(bytes) || bytes < 0 || bytes > 0x1p62) {
    throw input_error(where, "expected a size such as 4096, 512MiB, 12GiB or 80%, got '{}'; write one of these", text);
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace spillway
