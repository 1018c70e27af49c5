#include "io/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file_error.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

int entries(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a written file reads back and leaves no temporary") {
  const TemporaryFolder folder;
  write_file(folder.path() / "a.txt", "first");
  write_file(folder.path() / "a.txt", "second");
  CHECK(read_file(folder.path() / "a.txt", 100) == "second");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a file that is not committed leaves the old content") {
  const TemporaryFolder folder;
  write_file(folder.path() / "a.txt", "old");
  {
    AtomicFile file(folder.path() / "a.txt");
    file.append("new");
  }
  CHECK(read_file(folder.path() / "a.txt", 100) == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("only regular files are read, and a named pipe does not block") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(ReadFile(folder.path() / "pipe"), doctest::Contains("got a named pipe"), InputError);
  CHECK_THROWS_WITH_AS(ReadFile(folder.path()), doctest::Contains("got a folder"), InputError);
  CHECK_THROWS_WITH_AS(ReadFile("/dev/null"), doctest::Contains("got a device"), InputError);
  CHECK_THROWS_WITH_AS(ReadFile(folder.path() / "none"), doctest::Contains("got nothing of that name"), InputError);
  CHECK_THROWS_AS(AtomicFile(folder.path() / "pipe"), InputError);
  CHECK_THROWS_AS(AtomicFile(folder.path() / "no folder" / "a"), InputError);
}

TEST_CASE("a file above the size limit or shorter than asked is an error") {
  const TemporaryFolder folder;
  write_file(folder.path() / "a", "12345");
  CHECK_THROWS_WITH_AS(read_file(folder.path() / "a", 4), doctest::Contains("expected at most 4 B, got 5 B"),
                       InputError);
  std::byte bytes[4];
  CHECK_THROWS_WITH_AS(ReadFile(folder.path() / "a").read(3, bytes), doctest::Contains("expected 2 more bytes"),
                       InputError);
}

TEST_CASE("a disk that takes no more is a machine error and leaves nothing") {
  const TemporaryFolder folder;
  // A file size limit stands in for a full disk: pwrite fails in the middle (EFBIG).
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS_WITH_AS(write_file(folder.path() / "a", std::string(10000, 'x')), doctest::Contains("a] expected"),
                       MachineError);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(entries(folder.path()) == 0);
}

TEST_CASE("a folder is published as a whole, over an older one") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "deep" / "checkpoint-1";
  for (const std::string text : {"one", "two"}) {
    AtomicFolder atomic(target.string() + "/");
    write_file(atomic.path() / text, text);
    fs::create_directory(atomic.path() / "sub");
    atomic.publish();
  }
  CHECK(fs::exists(target / "two"));
  CHECK_FALSE(fs::exists(target / "one"));
  CHECK(entries(target.parent_path()) == 1);
}

TEST_CASE("a folder that is not published leaves the old one") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "model";
  fs::create_directories(target);
  { AtomicFolder atomic(target); }
  CHECK(fs::exists(target));
  CHECK(entries(folder.path()) == 1);
  write_file(folder.path() / "file", "");
  CHECK_THROWS_AS(AtomicFolder(folder.path() / "file"), InputError);
  CHECK_THROWS_AS(AtomicFolder(folder.path() / "file" / "x"), InputError);
}

TEST_CASE("a folder that a link names is replaced, and not the link") {
  const TemporaryFolder folder, elsewhere;
  {
    AtomicFolder old(elsewhere.path() / "real");
    write_file(old.path() / "old", "");
    old.publish();
  }
  fs::create_directory_symlink(elsewhere.path() / "real", folder.path() / "link");
  AtomicFolder target(folder.path() / "link/");
  write_file(target.path() / "new", "");
  target.publish();
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(fs::exists(elsewhere.path() / "real/new"));
  CHECK(!fs::exists(elsewhere.path() / "real/old"));
  CHECK(entries(elsewhere.path()) == 1);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("what std::filesystem throws is told as what a user can put right, or as the machine's") {
  const TemporaryFolder folder;
  const fs::path circle = folder.path() / "a";
  fs::create_symlink("b", circle);
  fs::create_symlink("a", folder.path() / "b");
  const auto told = [](const auto& action) {
    try {
      action();
    } catch (const fs::filesystem_error& error) {
      throw_file_error(error);
    }
  };
  CHECK_THROWS_WITH_AS(told([&] { (void)fs::exists(circle); }), doctest::Contains("circle of symbolic links"),
                       InputError);
  CHECK_THROWS_WITH_AS(told([&] { (void)fs::file_size(folder.path() / "c"); }), doctest::Contains("check the path"),
                       InputError);
  const auto full = [] { throw fs::filesystem_error("x", std::make_error_code(std::errc::no_space_on_device)); };
  CHECK_THROWS_WITH_AS(told(full), doctest::Contains("room on the disk"), MachineError);
}

TEST_CASE("folders are made with those above them, whatever their path looks like") {
  const TemporaryFolder folder;
  for (const char* name : {"a/b/c", "a/b/d/", "e//f", "a/./g/../h"}) {
    CAPTURE(name);
    create_folders(folder.path() / name);
    CHECK(fs::is_directory(folder.path() / name));
  }
  create_folders(folder.path());
  write_file(folder.path() / "file", "");
  CHECK_THROWS_AS(create_folders(folder.path() / "file"), InputError);
  CHECK_THROWS_AS(create_folders(folder.path() / "file/below"), InputError);
}
