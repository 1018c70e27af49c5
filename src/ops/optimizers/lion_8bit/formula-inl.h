// Lion's formula over moments in 8 bits. The kernels are bound by memory: 16 bytes per parameter with f32 gradients and
// a bf16 working copy (read p, g and the codes of m; write p, the copy and the codes), next to which decoding and
// encoding are not nothing: two look-ups and a division.
#if defined(SPILLWAY_OPS_LION_8BIT_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_LION_8BIT_FORMULA_INL_H
#undef SPILLWAY_OPS_LION_8BIT_FORMULA_INL_H
#else
#define SPILLWAY_OPS_LION_8BIT_FORMULA_INL_H
#endif

#include "ops/optimizers/block_codes.h"
#include "ops/optimizers/formula-inl.h"
#include "ops/optimizers/lion/formula-inl.h"

SPILLWAY_UPDATE_KERNEL(lion_8bit, run_block_update<LionFormula>(args, {kBnbSigned}))

#endif  // per-target include guard
