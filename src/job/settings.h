// The settings of a job that its results depend on, as names and values, and how several kinds of runs write theirs.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace spillway::train {

// Maps the name of a config key to its effective value. Keys that select other rows are left out: checkpoints refuse
// other rows by themselves.
using RunSettings = std::map<std::string, std::string>;

// Returns one number as it is, and several as a list.
[[nodiscard]] std::string print_numbers(const std::vector<double>& numbers);
void add_numbers(RunSettings& settings, std::initializer_list<std::pair<const char*, double>> numbers);
// Adds whether and how the reference follows the policy.
void add_sync(RunSettings& settings, const std::optional<config::ReferenceSync>& sync);

}  // namespace spillway::train
