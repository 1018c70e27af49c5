// Copies and clears whole tensors, with all threads.
#pragma once

#include "base/parallel.h"
#include "tensor/view.h"

namespace spillway::ops {

// REQUIRES: equal bytes; the two share all of their memory (then nothing happens) or none.
void copy_tensor(const TensorView& from, const TensorView& to, ThreadPool& threads);
void zero_tensor(const TensorView& tensor, ThreadPool& threads);

}  // namespace spillway::ops
