#include "base/clock.h"

#include <chrono>

namespace spillway {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace spillway
