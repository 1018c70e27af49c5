// Converts numbers from one floating-point type to another.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace spillway::cuda {

// Sets to[i] = from[i], rounded to the nearest even if `to` is narrower. Both types are f32 or bf16. Throws
// MachineError if the kernel could not be launched.
void convert(void* to, DType to_type, const void* from, DType from_type, int64_t elems, void* stream);

}  // namespace spillway::cuda
