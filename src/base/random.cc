#include "base/random.h"

#include <cmath>
#include <numbers>

namespace spillway {

// The method is that of Box and Muller, 1958.
float RandomStream::normal(double deviation) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(uniform())));
  return static_cast<float>(deviation * radius * std::cos(2 * std::numbers::pi * uniform()));
}

}  // namespace spillway
