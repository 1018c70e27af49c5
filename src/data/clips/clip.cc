#include "data/clips/clip.h"

#include <fmt/format.h>

namespace spillway::data {

std::string to_string(const ClipShape& shape) {
  return fmt::format("[{}, {}, {}, {}]", shape.channels, shape.frames, shape.height, shape.width);
}

}  // namespace spillway::data
