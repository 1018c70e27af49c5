#include "tensor/shape.h"

namespace spillway {

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) text += fmt::format("{}{}", axis ? ", " : "", shape[axis]);
  return text + "]";
}

}  // namespace spillway
