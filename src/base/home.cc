#include "base/home.h"

#include <cstdlib>

namespace spillway {

std::string expand_home(std::string path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return path;
  return path.replace(0, 1, home);
}

}  // namespace spillway
