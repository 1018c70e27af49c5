#include "io/mapped_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/checksum.h"
#include "io/file.h"

using namespace spillway;

TEST_CASE("a mapped file shows the bytes of the file, also after its memory was given back") {
  const TemporaryFolder folder;
  const std::string text(10000, 'x');
  write_file(folder.path() / "a", text);
  const MappedFile file(folder.path() / "a");
  REQUIRE(file.bytes().size() == text.size());
  file.forget();
  CHECK(std::memcmp(file.bytes().data(), text.data(), text.size()) == 0);
  write_file(folder.path() / "empty", "");
  CHECK(MappedFile(folder.path() / "empty").bytes().empty());
}

TEST_CASE("what is no file is refused without blocking") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  for (const auto& path : {folder.path(), folder.path() / "pipe", folder.path() / "missing"})
    CHECK_THROWS_AS(MappedFile{path}, InputError);
}

TEST_CASE("a mapped file that is cut short ends the program with its name, not with a bare signal") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rows", log = folder.path() / "log";
  write_file(path, std::string(10000, 'x'));
  const pid_t child = ::fork();
  if (child == 0) {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 0);
    ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    ::_exit(std::to_integer<int>(*static_cast<const volatile std::byte*>(&file.bytes()[5000])));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(read_file(log, 4096).starts_with("[" + path.string() + "] expected the file as it was when it was opened"));
}

TEST_CASE("a checksum does not depend on the pieces that it was fed") {
  const std::string text(100000, 'y');
  const auto bytes = std::as_bytes(std::span(text));
  Checksum sum;
  sum.add(bytes.first(17));
  sum.add(bytes.subspan(17, 70000));
  sum.add(bytes.subspan(70017));
  CHECK(sum.text() == checksum_text(bytes));
  CHECK(checksum_text({}) == "2d06800538d394c2");  // XXH3's sum of no bytes
  CHECK(checksum_text(bytes.first(99999)) != sum.text());
}
