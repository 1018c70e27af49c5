// Maps a dtype to a type, for kernels that are templates.
#pragma once

#include "tensor/dtype.h"

namespace spillway::ops {

// Calls f with a null float* or bf16*, by the dtype: f([]<class T>(T*) {...}).
template <typename Function>
void with_real(DType dtype, const Function& f) {
  if (dtype == DType::kBF16) {
    f(static_cast<bf16*>(nullptr));
  } else {
    f(static_cast<float*>(nullptr));
  }
}

}  // namespace spillway::ops
