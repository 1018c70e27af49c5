#include "io/folder_entries.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"

namespace fs = std::filesystem;
using namespace spillway;

TEST_CASE("a folder that is not there holds nothing, and one that cannot be read is named") {
  const TemporaryFolder folder;
  write_file(folder.path() / "file", "");
  CHECK(entries_of(folder.path()).size() == 1);
  CHECK(entries_of(folder.path() / "none").empty());
  CHECK(entries_of(folder.path() / "file").empty());
  // A link to itself fails for root, too, whom no permission keeps out.
  fs::create_symlink("circle", folder.path() / "circle");
  const std::string name = (folder.path() / "circle").string();
  CHECK_THROWS_WITH_AS((void)entries_of(name), doctest::Contains(name.c_str()), InputError);
  CHECK_THROWS_AS((void)files_below(name), InputError);
  CHECK(readable_entries_of(name).empty());
}
