#include "io/temporary_name.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <set>
#include <string>

#include "base/temporary_folder.h"
#include "io/folder_record.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

std::set<std::string> temporary_names(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// Runs `action` in a process of its own, which is killed after that.
void do_and_die(const std::function<void()>& action) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    action();
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

// Leaves a folder that is being written, and one that is being replaced, when the process dies.
void die_with_folders(const fs::path& target) {
  do_and_die([&] {
    const TemporaryFolderName name(target);
    fs::create_directory(name.temporary());
    mark_unfinished(name.temporary());
    write_file(name.temporary() / "part", "");
    fs::create_directory(name.old());
    ::raise(SIGKILL);
  });
}

}  // namespace

TEST_CASE("the next writer of a file removes what a killed one left of it, and nothing else") {
  const TemporaryFolder folder;
  for (const char* name : {"rows.jsonl", "other"}) {
    do_and_die([&] {
      AtomicFile file(folder.path() / name);
      file.append("half");
      ::raise(SIGKILL);
    });
  }
  const std::set<std::string> users = {"rows.jsonl.tmp-backup", ".rows.jsonl.tmp-1",
                                       ".rows.jsonl.tmp-0123456789ABCDEF"};
  for (const std::string& name : users) write_file(folder.path() / name, "");
  REQUIRE(temporary_names(folder.path()).size() == 2 + users.size());
  write_file(folder.path() / "rows.jsonl", "whole");
  CHECK(temporary_names(folder.path()).size() == 2 + users.size());  // the other's
  clear_leftovers(folder.path());
  std::set<std::string> expected = users;
  expected.insert("rows.jsonl");
  CHECK(temporary_names(folder.path()) == expected);
}

TEST_CASE("the next writer of a folder removes what a killed one left of it") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "model";
  die_with_folders(target);
  REQUIRE(temporary_names(folder.path()).size() == 3);
  {
    AtomicFolder atomic(target);
    CHECK(temporary_names(folder.path()).size() == 2 + 2);  // the old one has no successor yet
    atomic.publish();
  }
  clear_leftovers(folder.path());
  CHECK(temporary_names(folder.path()) == std::set<std::string>{"model"});
}

TEST_CASE("a name is given up without harm where no file can be opened, and what is left goes with the next writer") {
  const TemporaryFolder folder;
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  {
    const TemporaryFolderName name(folder.path() / "model");
    fs::create_directory(name.temporary());
    write_record(name.temporary(), {.command = "merge", .is_complete = true, .files = {}});
    const rlimit none{3, usual.rlim_max};  // beside the standard streams
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(temporary_names(folder.path()).size() == 2);
  clear_leftovers(folder.path());
  CHECK(temporary_names(folder.path()).empty());
}

// The writers stand for those of another container or host: a process id says nothing about them.
TEST_CASE("what another writer of the same name is still writing stays") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "model", row_file = folder.path() / "rows";
  AtomicFolder first(target);
  write_file(first.path() / "first", "");
  AtomicFile first_file(row_file);
  first_file.append("first");
  do_and_die([&] {  // another process
    AtomicFolder second(target);
    write_file(second.path() / "second", "");
    second.publish();
    write_file(row_file, "second");
    clear_leftovers(folder.path());
  });
  CHECK(fs::exists(target / "second"));
  CHECK(read_file(row_file, 100) == "second");
  first.publish();
  first_file.commit();
  CHECK(temporary_names(target) == std::set<std::string>{kRecordName, "first"});
  CHECK(read_file(row_file, 100) == "first");
}

TEST_CASE("of several writers of a new folder the first one wins, and the others may take its place") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "rows";
  {
    AtomicFolder first(target), second(target), third(target);
    for (const AtomicFolder* atomic : {&first, &second, &third}) write_file(atomic->path() / "a", "");
    write_file(second.path() / "second", "");
    CHECK(first.publish_new());
    CHECK(!second.publish_new());
    CHECK(!fs::exists(target / "second"));
    second.publish();
    CHECK(fs::exists(target / "second"));
  }
  CHECK(temporary_names(folder.path()) == std::set<std::string>{"rows"});
}

TEST_CASE("a folder that is removed is gone with the next clearing when the process dies in between") {
  const TemporaryFolder folder;
  {
    AtomicFolder atomic(folder.path() / "checkpoint-1");
    write_file(atomic.path() / "a", "");
    atomic.publish();
  }
  do_and_die([&] {
    const TemporaryFolderName name(folder.path() / "checkpoint-1");
    fs::rename(folder.path() / "checkpoint-1", name.temporary());
    ::raise(SIGKILL);
  });
  REQUIRE(temporary_names(folder.path()).size() == 2);
  clear_leftovers(folder.path());
  CHECK(temporary_names(folder.path()).empty());
}
