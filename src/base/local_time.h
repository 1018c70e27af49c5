// Local time for people, and as text that outlives a process.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// Returns the clock's time in the time zone of this machine.
[[nodiscard]] std::tm local_now();

// Returns "2026-11-22T18:57:03". A time read back has the same day of the week and of the year, but no zone.
[[nodiscard]] std::string time_text(const std::tm& time);
// Returns nullopt if it is no such text.
[[nodiscard]] std::optional<std::tm> time_from_text(std::string_view text);

}  // namespace spillway
