// AdamW's formula over moments in codes. The kernels are bound by memory: 18.1 bytes per parameter in 8 bits and 16.1
// in 4, with f32 gradients and a bf16 working copy (read p, g and the codes of m and v; write p, the copy and the
// codes).
#if defined(SPILLWAY_OPS_ADAMW_TORCHAO_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ADAMW_TORCHAO_FORMULA_INL_H
#undef SPILLWAY_OPS_ADAMW_TORCHAO_FORMULA_INL_H
#else
#define SPILLWAY_OPS_ADAMW_TORCHAO_FORMULA_INL_H
#endif

#include "ops/optimizers/adamw/formula-inl.h"
#include "ops/optimizers/block_codes.h"
#include "ops/optimizers/formula-inl.h"

SPILLWAY_UPDATE_KERNEL(adamw_torchao, args.attributes.integer("bits") == 8
                                          ? run_block_update<AdamwFormula>(args, {kAoSigned8, kAoUnsigned8})
                                          : run_block_update<AdamwFormula>(args, {kAoSigned4, kAoUnsigned4}))

#endif  // per-target include guard
