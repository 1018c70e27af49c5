// Weights that training ended with, against those of another library.
#pragma once

#include <filesystem>
#include <string_view>

namespace spillway::testing {

// The largest distance, as a share of the change by training.
constexpr double kMostOffOfUpdate = 0.02;

// Returns the distance of `ours` from `golden`, over all tensors of `golden`, as a share of the distance of `golden`
// from `start`. `prefix` precedes the names in `ours`.
[[nodiscard]] double distance_of_weights(const std::filesystem::path& golden, const std::filesystem::path& start,
                                         const std::filesystem::path& ours, std::string_view prefix = "");

}  // namespace spillway::testing
