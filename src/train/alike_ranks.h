// Compares what all ranks of a job must have alike.
#pragma once

#include <nlohmann/json.hpp>

#include "train/ranks.h"

namespace spillway::train {

// Throws InputError on all ranks if one of them has another value of a fact, a text, than rank 0: names the first such
// rank, and the first of the facts in their order. A collective. REQUIRES: all ranks have facts of the same names.
void check_alike(Ranks& ranks, const nlohmann::ordered_json& facts);

}  // namespace spillway::train
