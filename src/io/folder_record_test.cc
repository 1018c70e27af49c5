#include "io/folder_record.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/temporary_name.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void publish(const fs::path& target, const std::string& name) {
  AtomicFolder atomic(target);
  write_file(atomic.path() / name, name);
  atomic.publish();
}

}  // namespace

TEST_CASE("a record names the files of a folder, and reads back") {
  const TemporaryFolder folder;
  {
    AtomicFolder atomic(folder.path() / "a", "merge");
    write_file(atomic.path() / "quote\"d", "text");
    fs::create_directory(atomic.path() / "sub");
    write_file(atomic.path() / "sub/large", "");
    fs::resize_file(atomic.path() / "sub/large", kMaxSummedBytes + 1);
    atomic.publish();
  }
  const auto record = read_record(folder.path() / "a");
  REQUIRE(record);
  CHECK(record->command == "merge");
  CHECK(record->is_complete);
  REQUIRE(record->files.size() == 2);
  CHECK(record->files[0].name == "quote\"d");
  CHECK(record->files[0].bytes == 4);
  CHECK(record->files[1].name == "sub/large");
  CHECK(record->files[1].xxh3.empty());
  CHECK(is_unchanged(folder.path() / "a", record->files[0]));
  write_file(folder.path() / "a/quote\"d", "tex!");
  CHECK(!is_unchanged(folder.path() / "a", record->files[0]));
  CHECK(!read_record(folder.path()));
  for (const char* text :
       {"", "{", "[]", R"({"command": 1, "complete": true, "files": []})",
        R"({"command": "x", "complete": true, "files": [{"name": "../a", "bytes": 1, "xxh3": ""}]})",
        R"({"command": "x", "complete": true, "files": [{"name": "/a", "bytes": 1, "xxh3": ""}]})"}) {
    CAPTURE(text);
    write_file(folder.path() / kRecordName, text);
    CHECK(!read_record(folder.path()));
  }
}

TEST_CASE("what a folder holds that the program did not write is kept when it is replaced or removed") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "out";
  publish(target, "ours");
  write_file(target / "mine", "1");
  fs::create_directory(target / "also");
  write_file(target / "also/mine", "2");
  publish(target, "newer");
  CHECK(names_in(target) == std::set<std::string>{kRecordName, "newer"});
  CHECK(names_in(folder.path()) == std::set<std::string>{"out", "out.kept-1"});
  CHECK(names_in(folder.path() / "out.kept-1") == std::set<std::string>{kRecordName, "also", "mine"});
  CHECK(read_file(folder.path() / "out.kept-1/also/mine", 10) == "2");

  write_file(target / "mine", "3");
  remove_folder(target);
  CHECK(names_in(folder.path()) == std::set<std::string>{"out.kept-1", "out.kept-2"});
  CHECK(read_file(folder.path() / "out.kept-2/mine", 10) == "3");
}

TEST_CASE("a folder that has no record is kept whole when another takes its name") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "out");
  write_file(folder.path() / "out/mine", "");
  publish(folder.path() / "out", "ours");
  CHECK(names_in(folder.path() / "out") == std::set<std::string>{kRecordName, "ours"});
  CHECK(names_in(folder.path() / "out.kept-1") == std::set<std::string>{"mine"});
}

TEST_CASE("a name in a record that leads over a link removes nothing there") {
  const TemporaryFolder folder, elsewhere;
  const fs::path target = folder.path() / "out";
  {
    AtomicFolder atomic(target);
    fs::create_directory(atomic.path() / "sub");
    write_file(atomic.path() / "sub/a", "");
    atomic.publish();
  }
  fs::remove_all(target / "sub");
  write_file(elsewhere.path() / "a", "mine");
  fs::create_directory_symlink(elsewhere.path(), target / "sub");
  publish(target, "newer");
  CHECK(read_file(elsewhere.path() / "a", 10) == "mine");
}

TEST_CASE("clearing away after a process that was killed between two names loses nobody's files") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "model";
  publish(target, "old");
  write_file(target / "mine", "");
  {
    const TemporaryFolderName name(target);
    fs::rename(target, name.temporary());  // as an exchange leaves it for a moment
  }
  CHECK(names_in(folder.path()) == std::set<std::string>{"model.kept-1"});
  CHECK(names_in(folder.path() / "model.kept-1") == std::set<std::string>{kRecordName, "mine"});
}

TEST_CASE("a link to nothing is no folder to write, and stays") {
  const TemporaryFolder folder;
  fs::create_directory_symlink(folder.path() / "nothing", folder.path() / "link");
  CHECK_THROWS_WITH_AS(AtomicFolder(folder.path() / "link"), doctest::Contains("a link to nothing"), InputError);
  CHECK(names_in(folder.path()) == std::set<std::string>{"link"});
}
