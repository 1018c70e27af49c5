// Where the files of tests are: the repository as it lay when this was built or, for programs that were carried to
// another machine (tools/bundle), what SPILLWAY_SOURCE says.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace spillway::testing {

inline std::filesystem::path source_folder() {
  const char* const carried = std::getenv("SPILLWAY_SOURCE");
  return carried ? carried : SPILLWAY_SOURCE_DIR;
}

}  // namespace spillway::testing
