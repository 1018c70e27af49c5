// Adds the product of an adapter's factors to a weight in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "model/decomposition.h"

namespace spillway {

// Adds scale * B A to W [rows, columns]. Sums are f32.
void add_low_rank_product(std::vector<float>& weight, const LowRankFactors& factors, double scale, int64_t rows,
                          ThreadPool& pool);

}  // namespace spillway
