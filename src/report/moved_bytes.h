// What a program moves between tiers in one optimizer step, by lane and kind of value.
#pragma once

#include <array>
#include <cstdint>

#include "plan/usage.h"

namespace spillway {

using MovedBytes = std::array<ClassBytes, kLanes>;

// With all tokens in every micro-batch; a shorter stream moves less.
[[nodiscard]] MovedBytes moved_bytes(const Graph& graph, const Program& program, int64_t accumulation);

}  // namespace spillway
