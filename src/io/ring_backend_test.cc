#include "io/ring_backend.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "io/disk_queue.h"
#include "io/scratch.h"
#include "tests/support/aligned_memory.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kRingPage = kDiskAlignment;

// The test's instructions and observations, while the ring belongs to a queue.
struct Script {
  int64_t enters = 0, pauses = 0;
  // enter() fails with `error` this often, after `works` calls that work.
  int64_t works = 0, fails = 0;
  int error = 0;
  // The number of pauses after which a block that was taken finishes; -1: never.
  int64_t pauses_until_finished = 0;
  int64_t taken = 0, finished = 0;
};

class ScriptedRing final : public SubmissionRing {
 public:
  ScriptedRing(Script& script, std::vector<int> files) : script_(script), files_(std::move(files)) {}

  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  void push(int32_t slot, const DiskBlock& block) override { pushed_.push_back({slot, block}); }
  int enter(bool /*wait*/) override {
    const int64_t call = script_.enters++;
    if (call >= script_.works && call < script_.works + script_.fails) return -script_.error;
    const int count = static_cast<int>(pushed_.size());
    script_.taken += count;
    taken_.insert(taken_.end(), pushed_.begin(), pushed_.end());
    pushed_.clear();
    return count;
  }
  std::optional<DiskBackend::Completion> peek() override {
    if (taken_.empty() || script_.pauses_until_finished < 0 || script_.pauses < script_.pauses_until_finished)
      return std::nullopt;
    const auto [slot, block] = taken_.front();
    taken_.erase(taken_.begin());
    ++script_.finished;
    const int fd = nth(files_, block.file);
    const auto bytes = static_cast<size_t>(block.bytes);
    return DiskBackend::Completion{slot, block.direction == DiskDirection::kRead
                                             ? ::pread(fd, block.memory, bytes, block.offset)
                                             : ::pwrite(fd, block.memory, bytes, block.offset)};
  }

 private:
  struct Pushed {
    int32_t slot;
    DiskBlock block;
  };
  Script& script_;
  std::vector<int> files_;
  std::vector<Pushed> pushed_, taken_;
};

DiskQueueOptions scripted_queue(Script& script) {
  return {.requests = 5, .depth = 4, .block_bytes = 2 * kRingPage, .backend = [&script](const DiskBackendSetup& setup) {
            return make_ring_backend(std::make_unique<ScriptedRing>(script, setup.files), setup.depth,
                                     [&script](std::chrono::milliseconds) { ++script.pauses; });
          }};
}

}  // namespace

TEST_CASE("a ring that takes nothing for a moment is asked again, with pauses") {
  const TemporaryFolder folder;
  for (const int error : {EAGAIN, EBUSY, ENOMEM, EINTR}) {
    CAPTURE(error);
    Script script{.works = 3, .fails = 50, .error = error};
    Scratch scratch({.folders = {folder.path()}, .bytes = 64 * kRingPage});
    AlignedMemory arena(scratch.bytes());
    std::fill_n(arena.data(), arena.bytes(), std::byte{42});
    DiskQueue queue(&scratch, scripted_queue(script));
    queue.wait(queue.write_scratch(0, arena.span()));
    std::fill_n(arena.data(), arena.bytes(), std::byte{0});
    queue.wait(queue.read_scratch(0, arena.span()));
    CHECK(std::count(arena.data(), arena.data() + arena.bytes(), std::byte{42}) == arena.bytes());
    CHECK((script.pauses > 0) == (error != EINTR));
    CHECK(script.pauses <= 50);
  }
}

TEST_CASE("a ring that fails for good ends the job as a block does, when the kernel has finished what it has") {
  const TemporaryFolder folder;
  for (const int error : {EIO, EAGAIN, EBUSY, ENOMEM}) {
    for (const int64_t pauses_until_finished : {0, 30, -1}) {
      CAPTURE(error);
      CAPTURE(pauses_until_finished);
      Script script{.works = 1, .fails = INT64_MAX / 2, .error = error};
      Scratch scratch({.folders = {folder.path()}, .bytes = 64 * kRingPage});
      AlignedMemory arena(scratch.bytes());
      {
        DiskQueue queue(&scratch, scripted_queue(script));
        script.pauses_until_finished =
            pauses_until_finished <= 0 ? pauses_until_finished : pauses_until_finished + (error == EIO ? 0 : 100);
        const std::string expected =
            fmt::format("[{}] expected to write 8192 bytes at offset ", folder.path().string());
        const std::string reason =
            fmt::format("got \"{}\"; {}, then go on from the last checkpoint", std::strerror(error),
                        error == ENOMEM ? "free some memory" : "check the disk (dmesg)");
        const auto write = [&] { queue.wait(queue.write_scratch(0, arena.span())); };
        CHECK_THROWS_WITH_AS(write(), doctest::Contains(expected.c_str()), MachineError);
        CHECK_THROWS_WITH_AS(queue.drain(), doctest::Contains(reason.c_str()), MachineError);
        CHECK_THROWS_AS(queue.read_scratch(0, arena.span()), MachineError);
        CHECK(script.taken > 0);
        CHECK(script.finished == (pauses_until_finished < 0 ? 0 : script.taken));
      }
      CHECK(script.pauses <= 200);
    }
  }
}
