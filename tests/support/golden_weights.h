// Weights that training ended with, against those of another library.
#pragma once

#include <filesystem>
#include <string_view>

namespace spillway::testing {

// What may be off, as a share of what training changed.
constexpr double kMostOffOfUpdate = 0.02;

// How far `ours` is from `golden`, all tensors of `golden` together, as a share of how far that has come from `start`.
// `prefix` stands before the names in `ours`.
[[nodiscard]] double distance_of_weights(const std::filesystem::path& golden, const std::filesystem::path& start,
                                         const std::filesystem::path& ours, std::string_view prefix = "");

}  // namespace spillway::testing
