#include "io/disk_queue.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "io/testing/faulty_backend.h"
#include "tests/support/aligned_memory.h"
#include "tests/support/count_allocations.h"

namespace fs = std::filesystem;
using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kPage = kDiskAlignment;

// Returns the backends that this machine permits.
std::vector<MakeDiskBackend> backends() {
  std::vector<MakeDiskBackend> result = {make_thread_backend};
  if (make_uring_backend({})) result.emplace_back(make_uring_backend);
  return result;
}

void fill(std::span<std::byte> memory, uint64_t stream) {
  RandomStream random(7, stream);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random.next());
}

ScratchOptions small_scratch(const TemporaryFolder& folder, int files, bool checksums = false) {
  return {.folders = std::vector<fs::path>(static_cast<size_t>(files), folder.path()),
          .bytes = 64 * kPage,
          .stripe_bytes = 4 * kPage,
          .checksums = checksums};
}

// Writes and reads random ranges, several at once, beside a copy of the space in memory. Returns the number of ranges
// that differed.
int compare_with_copy(Scratch& scratch, const DiskQueueOptions& options, AlignedMemory& arena, uint64_t seed) {
  DiskQueue queue(&scratch, options);
  AlignedMemory copy(scratch.bytes());
  fill(copy.span(), 1000 + seed);
  std::memcpy(arena.data(), copy.data(), static_cast<size_t>(copy.bytes()));
  queue.wait(queue.write_scratch(0, arena.span()));
  RandomStream random(seed, 1);
  int different = 0;
  for (int round = 0; round < 8; ++round) {
    struct Range {
      int64_t begin, bytes;
      bool is_read;
      DiskQueue::Ticket ticket;
    };
    std::vector<Range> ranges;
    for (int64_t page = 0; page < scratch.bytes() / kPage;) {
      const int64_t left = scratch.bytes() / kPage - page;
      const int64_t pages = std::min<int64_t>(left, 1 + random.below(20));
      ranges.push_back({page * kPage, pages * kPage, random.below(2) == 0, 0});
      page += pages;
    }
    for (size_t i = ranges.size(); i > 1; --i) std::swap(ranges[i - 1], ranges[random.below(static_cast<uint32_t>(i))]);
    fill(arena.span(), seed * 100 + static_cast<uint64_t>(round));
    for (Range& range : ranges) {
      const auto memory = arena.span(range.begin, range.bytes);
      range.ticket = range.is_read ? queue.read_scratch(range.begin, memory) : queue.write_scratch(range.begin, memory);
    }
    for (const Range& range : ranges) {
      queue.wait(range.ticket);
      const auto expected = copy.span(range.begin, range.bytes), got = arena.span(range.begin, range.bytes);
      if (range.is_read) different += std::equal(got.begin(), got.end(), expected.begin()) ? 0 : 1;
      if (!range.is_read) std::copy(got.begin(), got.end(), expected.begin());
    }
  }
  return different;
}

// Returns the options of a queue of four blocks of two pages each.
DiskQueueOptions small_queue(const MakeDiskBackend& backend) {
  return {.requests = 5, .depth = 4, .block_bytes = 2 * kPage, .backend = backend};
}

}  // namespace

TEST_CASE("what is written to the disk tier is read back, by each back end, striped or not") {
  const TemporaryFolder folder;
  for (const MakeDiskBackend& backend : backends()) {
    for (const int files : {1, 3}) {
      Scratch scratch(small_scratch(folder, files, files == 3));
      AlignedMemory arena(scratch.bytes());
      DiskQueueOptions options = small_queue(backend);
      for (const bool is_registered : {false, true}) {
        if (is_registered) options.memory = {arena.span()};
        CHECK(compare_with_copy(scratch, options, arena, 1) == 0);
      }
    }
  }
}

TEST_CASE("delays, reordering and short transfers change no byte") {
  const TemporaryFolder folder;
  for (const MakeDiskBackend& backend : backends()) {
    Scratch scratch(small_scratch(folder, 2, true));
    AlignedMemory arena(scratch.bytes());
    for (uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      const DiskFaults faults{.seed = seed, .delay = 0.5, .shorten = 0.3};
      CHECK(compare_with_copy(scratch, small_queue(with_faults(backend, faults)), arena, seed) == 0);
    }
  }
}

TEST_CASE("a model file is read at any offset, size and address, and nothing beside is touched") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  std::string content(static_cast<size_t>(37 * kPage + 123), 0);
  fill(std::as_writable_bytes(std::span(content)), 3);
  write_file(path, content);
  const int64_t size = std::ssize(content);

  AlignedMemory memory(40 * kPage), staging(4 * 2 * kPage);
  for (const MakeDiskBackend& backend : backends()) {
    for (const bool has_staging : {false, true}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const DiskFaults faults{.seed = seed, .delay = 0.3, .shorten = seed == 0 ? 0 : 0.3};
        DiskQueueOptions options = small_queue(with_faults(backend, faults));
        options.read_files = {path};
        if (has_staging) options.staging = staging.span();
        DiskQueue queue(nullptr, options);
        RandomStream random(seed, 9);
        const auto read = [&](int64_t offset, int64_t bytes, int64_t address) {
          CAPTURE(offset);
          CAPTURE(bytes);
          CAPTURE(address);
          std::fill_n(memory.data(), memory.bytes(), std::byte{0xA5});
          queue.wait(queue.read_file(0, offset, memory.span(address, bytes)));
          CHECK(std::memcmp(memory.data() + address, content.data() + offset, static_cast<size_t>(bytes)) == 0);
          CHECK(std::count(memory.data(), memory.data() + address, std::byte{0xA5}) == address);
          std::byte* const end = memory.data() + address + bytes;
          CHECK(std::count(end, memory.data() + memory.bytes(), std::byte{0xA5}) == memory.bytes() - address - bytes);
        };
        read(0, size, 0);
        read(0, 0, 0);
        read(size - 1, 1, 17);
        read(8, 3 * kPage, 8);  // congruent: mostly in place
        read(size - 3 * kPage, 3 * kPage, (size - 3 * kPage) % kPage);
        for (int i = 0; i < 30; ++i) {
          const int64_t offset = random.below(static_cast<uint32_t>(size));
          const int64_t bytes = random.below(static_cast<uint32_t>(size - offset + 1));
          const bool is_congruent = random.below(2) == 0;
          read(offset, bytes, is_congruent ? offset % kPage : random.below(2 * kPage));
        }
      }
    }
  }
}

TEST_CASE("a disk that fails ends the job with path, offset and what to do, and every later call says the same") {
  const TemporaryFolder folder;
  for (const MakeDiskBackend& backend : backends()) {
    for (const int error : {EIO, ENOSPC}) {
      Scratch scratch(small_scratch(folder, 1));
      AlignedMemory arena(scratch.bytes());
      // The sixth block begins at page 10.
      DiskQueue queue(&scratch, small_queue(with_faults(backend, {.delay = 0.5, .fail_at = 5, .error = error})));
      const std::string expected = fmt::format(
          "[{}] expected to write 8192 bytes at offset 40960 of the scratch file, got \"{}\"; {}",
          folder.path().string(), std::strerror(error), error == EIO ? "check the disk" : "free some space");
      const auto ticket = queue.write_scratch(0, arena.span());
      CHECK_THROWS_WITH_AS(queue.wait(ticket), doctest::Contains(expected.c_str()), MachineError);
      CHECK_THROWS_WITH_AS(queue.wait(ticket), doctest::Contains(expected.c_str()), MachineError);
      CHECK_THROWS_AS(queue.drain(), MachineError);
      CHECK_THROWS_AS(queue.read_scratch(0, arena.span()), MachineError);
    }
  }
}

TEST_CASE("a model file that has become shorter is an error") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  AlignedMemory memory(8 * kPage), staging(4 * 2 * kPage);
  for (const MakeDiskBackend& backend : backends()) {
    for (const bool has_staging : {false, true}) {
      write_file(path, std::string(8 * kPage, 'x'));
      DiskQueueOptions options = small_queue(backend);
      options.read_files = {path};
      if (has_staging) options.staging = staging.span();
      DiskQueue queue(nullptr, options);
      REQUIRE(::truncate(path.c_str(), 3 * kPage + 5) == 0);
      CHECK_THROWS_WITH_AS(queue.wait(queue.read_file(0, 0, memory.span())),
                           doctest::Contains("of the file, got \"the end of the file\"; check the disk"), MachineError);
    }
  }
}

TEST_CASE("with checksums a torn write and a changed byte are errors that name file, block and sums") {
  const TemporaryFolder folder;
  Scratch scratch(small_scratch(folder, 2, true));
  AlignedMemory arena(scratch.bytes()), zeros(kPage);
  for (const MakeDiskBackend& backend : backends()) {
    for (const bool is_torn : {true, false}) {
      fill(arena.span(), is_torn ? 1 : 2);
      const DiskFaults faults{.tear = is_torn ? 1.0 : 0.0};
      DiskQueue queue(&scratch, small_queue(with_faults(backend, faults)));
      queue.wait(queue.write_scratch(0, arena.span()));
      // Page 5 lies in stripe 1, which is the first of the second file.
      if (!is_torn) REQUIRE(::pwrite(scratch.files()[1].fd.get(), zeros.data(), kPage, kPage) == kPage);
      queue.wait(queue.read_scratch(0, arena.span(0, kPage)));
      const std::string expected = fmt::format(
          "[{}] expected the bytes that were written at offset {} of the scratch "
          "file (block {} of the disk tier, sum ",
          folder.path().string(), kPage, is_torn ? 1 : 5);
      CHECK_THROWS_WITH_AS(queue.wait(queue.read_scratch(0, arena.span())), doctest::Contains(expected.c_str()),
                           MachineError);
    }
  }
}

TEST_CASE("after construction a queue allocates nothing" * doctest::skip(!AllocationCounter::works())) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  write_file(path, std::string(5 * kPage, 'x'));
  AlignedMemory arena(64 * kPage), staging(4 * 2 * kPage);
  for (const MakeDiskBackend& backend : backends()) {
    Scratch scratch(small_scratch(folder, 2, true));
    DiskQueueOptions options = small_queue(backend);
    options.memory = {arena.span()};
    options.read_files = {path};
    options.staging = staging.span();
    DiskQueue queue(&scratch, options);
    const AllocationCounter counter;
    for (int i = 0; i < 20; ++i) {
      for (int64_t page = 0; page < 64; page += 8)
        queue.write_scratch(page * kPage, arena.span(page * kPage, 8 * kPage));
      queue.drain();
      const auto first = queue.read_scratch(0, arena.span(0, 60 * kPage));
      const auto second = queue.read_file(0, 3, arena.span(60 * kPage, 2 * kPage));
      queue.wait(second);
      queue.wait(first);
    }
    CHECK(counter.count() == 0);
  }
}
