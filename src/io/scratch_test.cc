#include "io/scratch.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"

namespace fs = std::filesystem;
using namespace spillway;

TEST_CASE("a scratch space is reserved in full and cannot be seen in its folder") {
  const TemporaryFolder folder;
  const Scratch scratch({.folders = {folder.path()}, .bytes = 8 * kMiB});
  CHECK(fs::is_empty(folder.path()));
  REQUIRE(scratch.files().size() == 1);
  CHECK(fs::file_size(fmt::format("/proc/self/fd/{}", scratch.files()[0].fd.get())) == 8 * kMiB);
}

TEST_CASE("a folder that was made for the scratch space is gone at once") {
  const TemporaryFolder folder;
  const Scratch scratch({.folders = {folder.path() / "scratch"}, .bytes = kMiB});
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("ranks that make and remove one folder at the same time all get their scratch files") {
  const TemporaryFolder folder;
  constexpr int kRounds = 100, kRanks = 4;
  std::atomic<int> files = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&] {
        try {
          const Scratch scratch({.folders = {folder.path() / "scratch"}, .bytes = kDiskAlignment});
          files += static_cast<int>(scratch.files().size());
        } catch (const std::exception& error) {
          MESSAGE(std::string(error.what()));
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  CHECK(files == kRounds * kRanks);
}

TEST_CASE("every byte of a striped space has a place of its own within a file's size") {
  const TemporaryFolder folder;
  constexpr int64_t kPage = kDiskAlignment;
  for (const int64_t pages : {0, 1, 2, 7, 12, 13}) {
    const Scratch scratch(
        {.folders = {folder.path(), folder.path(), folder.path()}, .bytes = pages * kPage, .stripe_bytes = 2 * kPage});
    int64_t reserved = 0;
    for (const Scratch::File& file : scratch.files()) reserved += file.bytes;
    CHECK(reserved == scratch.bytes());
    std::map<std::pair<int32_t, int64_t>, int64_t> owner;
    for (int64_t at = 0; at < scratch.bytes(); at += kPage) {
      const Scratch::Place place = scratch.place_of(at);
      CHECK(owner.emplace(std::pair(place.file, place.offset), at).second);
      CHECK(place.offset + kPage <= nth(scratch.files(), place.file).bytes);
      CHECK(place.bytes == std::min(2 * kPage - at % (2 * kPage), scratch.bytes() - at));
      CHECK(place.file == at / (2 * kPage) % 3);
    }
  }
}

TEST_CASE("a scratch space larger than the disk is refused before anything is reserved") {
  const TemporaryFolder folder;
  const int64_t free_bytes = static_cast<int64_t>(fs::space(folder.path()).available);
  const int64_t bytes = free_bytes / kGiB * kGiB + 64 * kGiB;
  const std::string needed = "expected " + format_bytes(bytes) + " of free room for the disk tier, got ";
  CHECK_THROWS_WITH_AS(Scratch({.folders = {folder.path()}, .bytes = bytes}), doctest::Contains(needed.c_str()),
                       InputError);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a limit on file sizes is an error, not the end of the process") {
  const TemporaryFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{kMiB, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS_WITH_AS(Scratch({.folders = {folder.path()}, .bytes = 2 * kMiB}),
                       doctest::Contains("expected a scratch file of 2.0 MiB to be allowed, got a limit of 1.0 MiB"),
                       InputError);
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST_CASE("a scratch space in a folder that cannot be is an input error") {
  const TemporaryFolder folder;
  write_file(folder.path() / "file", "");
  CHECK_THROWS_AS(Scratch({.folders = {folder.path() / "file"}, .bytes = kMiB}), InputError);
  CHECK_THROWS_AS(Scratch({.folders = {"/proc/self"}, .bytes = kMiB}), std::runtime_error);
}
