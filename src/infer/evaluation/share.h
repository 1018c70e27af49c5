// A share of items as lm-evaluation-harness reports it.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace spillway::infer {

// Adds `name`, and as `name_stderr` the standard error of the mean (sample standard deviation over the root of the
// number of items), null for a single item.
inline void add_share(nlohmann::ordered_json& json, const std::string& name, int64_t right, size_t items) {
  const double share = static_cast<double>(right) / static_cast<double>(items);
  json[name] = share;
  json[name + "_stderr"] = items > 1
                               ? nlohmann::ordered_json(std::sqrt(share * (1 - share) / static_cast<double>(items - 1)))
                               : nlohmann::ordered_json();
}

}  // namespace spillway::infer
