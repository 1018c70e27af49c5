// The sum of the ranks' contributions in an order that does not depend on how they travel.
#pragma once

#include <span>

namespace spillway {

// Adds contributions to `part` one after another: part[i] = ((part[i] + c[0][i]) + c[1][i]) + ..., each sum rounded to
// f32. Every contribution has part.size() elements and does not overlap with it.
void fold_in_order(std::span<float> part, std::span<const float* const> contributions);

}  // namespace spillway
