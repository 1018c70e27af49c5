#include "io/disk_backend.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/bytes.h"
#include "base/temporary_folder.h"
#include "io/disk_queue.h"
#include "io/scratch.h"
#include "tests/support/aligned_memory.h"
#include "tests/support/captured.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

#ifdef SPILLWAY_NO_URING  // of a build without liburing
constexpr bool kHasUring = false;
constexpr int kRefusal = ENOSYS;
#else
constexpr bool kHasUring = true;
constexpr int kRefusal = EPERM;
#endif

// Refuses io_uring, as container runtimes do, for this thread and those that it starts, and for good.
bool refuse_io_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Returns true if this kernel offers io_uring to all processes and no filter of system calls stands before it.
bool is_uring_due() {
  if (!kHasUring) return false;
  std::string word;
  std::ifstream switched("/proc/sys/kernel/io_uring_disabled"), status("/proc/self/status");
  if (!(switched >> word) || word != "0") return false;
  while (status >> word) {
    if (word == "Seccomp:") return status >> word && word == "0";
  }
  return false;
}

}  // namespace

TEST_CASE("io_uring is used, and so tested, where nothing refuses it") {
  if (is_uring_due()) CHECK(make_uring_backend({}) != nullptr);
}

TEST_CASE("where io_uring is refused, threads do the work, and one line says so") {
  const bool is_had = make_uring_backend({}) != nullptr;
  const TemporaryFolder folder;
  AlignedMemory arena(kMiB);
  std::string name;
  bool is_filtered = false, is_null = false, is_equal = false;
  int error = 0;
  std::string said;
  std::thread([&] {
    is_filtered = refuse_io_uring();
    if (!is_filtered) return;
    is_null = make_uring_backend({}) == nullptr;
    error = errno;
    Scratch scratch({.folders = {folder.path()}, .bytes = kMiB});
    std::optional<DiskQueue> other, queue;
    said = capture([&] {
             other.emplace(nullptr, DiskQueueOptions());
             queue.emplace(&scratch, DiskQueueOptions());
             return 0;
           }).err;
    name = queue->backend_name();
    std::fill_n(arena.data(), kMiB, std::byte{42});
    queue->wait(queue->write_scratch(0, arena.span()));
    std::fill_n(arena.data(), kMiB, std::byte{0});
    queue->wait(queue->read_scratch(0, arena.span()));
    is_equal = std::count(arena.data(), arena.data() + kMiB, std::byte{42}) == kMiB;
  }).join();
  REQUIRE(is_filtered);
  CHECK(is_null);
  CHECK(error == kRefusal);
  CHECK(name == "threads");
  CHECK(is_equal);
  // An earlier test of this program may have logged the line, if io_uring is refused to all.
  if (is_had) CHECK(said == "the disk tier works with threads: io_uring is refused here (Operation not permitted)\n");
}
