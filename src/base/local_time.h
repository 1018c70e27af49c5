// Local time as people read it, and as text that outlives a process.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// The clock's, where this machine is.
[[nodiscard]] std::tm local_now();

// "2026-11-22T18:57:03". A time read back has the same day of the week and of the year, but no zone.
[[nodiscard]] std::string time_text(const std::tm& time);
// Nothing for what is no such text.
[[nodiscard]] std::optional<std::tm> time_from_text(std::string_view text);

}  // namespace spillway
