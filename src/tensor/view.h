// A tensor in memory that it does not own: pointer, dtype and shape, always dense and row-major.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace spillway {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  // Returns the data as a T*. REQUIRES: T matches dtype.
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
  [[nodiscard]] int64_t elems() const { return shape.elems(); }
  [[nodiscard]] int64_t bytes() const { return shape.elems() * size_of(dtype); }
};

}  // namespace spillway
