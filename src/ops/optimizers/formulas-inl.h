// The formulas of all optimizers that move one element after another: a line each. Included once by the source that
// makes their kernels for a device, which is compiled anew for each instruction set.
#include "ops/optimizers/adagrad/formula-inl.h"
#include "ops/optimizers/adamw/formula-inl.h"
#include "ops/optimizers/adamw_8bit/formula-inl.h"
#include "ops/optimizers/adamw_torchao/formula-inl.h"
#include "ops/optimizers/ademamix/formula-inl.h"
#include "ops/optimizers/lion/formula-inl.h"
#include "ops/optimizers/lion_8bit/formula-inl.h"
#include "ops/optimizers/muon/formula-inl.h"
#include "ops/optimizers/rmsprop/formula-inl.h"
#include "ops/optimizers/schedule_free_adamw/formula-inl.h"
#include "ops/optimizers/sgd/formula-inl.h"
