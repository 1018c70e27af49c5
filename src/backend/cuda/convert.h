// Numbers from one floating-point type to another.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace spillway::cuda {

// to[i] = from[i], rounded to the nearest even where `to` is narrower. Each f32 or bf16. Throws MachineError where the
// kernel could not be launched.
void convert(void* to, DType to_type, const void* from, DType from_type, int64_t elems, void* stream);

}  // namespace spillway::cuda
