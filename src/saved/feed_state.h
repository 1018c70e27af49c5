// The state of a feed that generates its own data, as a checkpoint keeps it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "job/online/completion.h"

namespace spillway::train {

struct FeedState {
  std::shared_ptr<const Round> round;        // that steps after this one train on, too; null: none
  nlohmann::ordered_json entropy = nullptr;  // EntropyControl::state; null: none
};

}  // namespace spillway::train
