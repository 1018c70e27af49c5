#include "ops/optimizers/block_update.cuh"
#include "ops/optimizers/update.cuh"
// behind the frames, which they use:
#include "ops/optimizers/formulas-inl.h"
