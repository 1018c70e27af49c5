#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/formulas_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/block_update-inl.h"
#include "ops/optimizers/update-inl.h"
// behind the frames, which they use:
#include "ops/optimizers/formulas-inl.h"
