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

TEST_CASE("whether a folder is held is seen without holding it") {
  const TemporaryFolder folder;
  CHECK_FALSE(is_folder_held(folder.path()));
  {
    const FolderLock lock(folder.path());
    CHECK(is_folder_held(folder.path()));
  }
  CHECK_FALSE(is_folder_held(folder.path()));
  CHECK_FALSE(is_folder_held(folder.path() / "nothing"));
}
