#include "io/folder_lock.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/temporary_folder.h"

using namespace spillway;

TEST_CASE("a folder is locked for one run at a time, and nothing is left in it") {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    CHECK_THROWS_WITH_AS(FolderLock(folder.path()), doctest::Contains("another run is writing to"), InputError);
  }
  const FolderLock again(folder.path());
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_THROWS_AS(FolderLock(folder.path() / "nothing"), InputError);
}
