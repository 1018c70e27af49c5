#include "hub/place_blob.h"

#include <doctest/doctest.h>

#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;
using hub::Links;
namespace fs = std::filesystem;

TEST_CASE("a file of the cache is a link to its blob, and on a file system without links the blob or a copy of it") {
  for (const Links links : {Links::kSymbolic, Links::kHard, Links::kNone}) {
    for (const bool may_move : {false, true}) {
      CAPTURE(static_cast<int>(links));
      CAPTURE(may_move);
      const TemporaryFolder folder;
      const fs::path blob = folder.path() / "blobs/etag", file = folder.path() / "snapshots/commit/a/config.json";
      fs::create_directories(blob.parent_path());
      write_file(blob, "of the blob");
      for (int time = 0; time < 2; ++time) {  // the second finds the first in its place
        if (!fs::exists(blob)) write_file(blob, "of the blob");
        hub::place_blob(blob, file, may_move, links);
        CHECK(read_file(file, 100) == "of the blob");
        CHECK(fs::is_symlink(file) == (links == Links::kSymbolic));
        CHECK(fs::exists(blob) == (links != Links::kNone || !may_move));
        if (links == Links::kHard) CHECK(fs::equivalent(blob, file));
        CHECK(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()) == 1);
      }
    }
  }
}

TEST_CASE("a file of another blob is replaced") {
  for (const Links links : {Links::kSymbolic, Links::kHard, Links::kNone}) {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "snapshots/commit/config.json";
    for (const char* name : {"old", "new"}) {
      write_file(folder.path() / name, name);
      hub::place_blob(folder.path() / name, file, true, links);
      CHECK(read_file(file, 100) == name);
    }
  }
}
