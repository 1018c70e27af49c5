// Whether a dataset's `type` exists.
#pragma once

#include "data/dataset_options.h"

namespace spillway::data {

// Throws InputError where rows of the objective cannot be made by `config.type`, naming the types that there are.
void check_dataset_type(const DatasetConfig& config, Objective objective);

}  // namespace spillway::data
