#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/index.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/sizes.h"
#include "io/disk_queue.h"
#include "io/disk_space.h"
#include "runtime/computer.h"
#include "runtime/cpu_share.h"
#include "runtime/measure.h"

namespace spillway {
namespace {

constexpr int64_t kRequest = 4 * kMiB, kRequests = 4;
constexpr int64_t kSmallRequest = 256 * kKiB;
constexpr double kSeconds = 1;  // of a pass, at most
constexpr double kSecondsOfBoth = 0.5, kSecondsOfLatency = 0.3;

// Returns the CPU time of this process, including the kernel's threads for its requests.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// Fills memory with noise, since some disks do not write zeros.
void fill_with_noise(const Arena& memory) {
  RandomStream random(1, 0);
  for (int64_t at = 0; at < memory.bytes(); at += 4) {
    const uint32_t noise = random.next();
    std::memcpy(memory.at(at), &noise, 4);
  }
}

struct Pass {
  int64_t bytes = 0;
  double seconds = 0;
  double cores = 0;  // the number of busy cores

  [[nodiscard]] double rate() const { return static_cast<double>(bytes) / seconds; }
};

// A part of the space, and the memory that its requests read from and write to.
struct Stream {
  int64_t begin = 0, bytes = 0;
  DiskDirection direction = DiskDirection::kRead;
  std::span<std::byte> memory;
};

// Goes through the stream's part of the space, round and round, with `in_flight` requests at a time, until the time is
// used up, or `max_bytes`.
Pass run_pass(Scratch& scratch, const Stream& stream, int64_t request_bytes, int64_t in_flight, double max_seconds,
              int64_t max_bytes = std::numeric_limits<int64_t>::max()) {
  wake_promptly();
  DiskQueue queue(&scratch, {.memory = {stream.memory}});
  std::array<DiskQueue::Ticket, kRequests> tickets{};
  const double begin = now_seconds(), cpu_begin = cpu_seconds();
  Pass pass;
  for (int64_t i = 0; pass.bytes < max_bytes && now_seconds() - begin < max_seconds; ++i, pass.bytes += request_bytes) {
    DiskQueue::Ticket& ticket = nth(tickets, i % in_flight);
    if (i >= in_flight) queue.wait(ticket);
    const std::span piece = subspan_of(stream.memory, i % in_flight * request_bytes, request_bytes);
    const int64_t offset = stream.begin + pass.bytes % (stream.bytes / request_bytes * request_bytes);
    ticket = stream.direction == DiskDirection::kWrite ? queue.write_scratch(offset, piece)
                                                       : queue.read_scratch(offset, piece);
  }
  queue.drain();
  pass.seconds = std::max(now_seconds() - begin, 1e-9);
  pass.cores = (cpu_seconds() - cpu_begin) / pass.seconds;
  return pass;
}

// Starts `body` on a thread of its own, as a lane has one.
template <typename Body>
std::future<Pass> start(const Body& body) {
  return std::async(std::launch::async, body);
}

// Keeps all CPUs computing while it lives.
class Computation {
 public:
  Computation() {
    try {
      for (int i = 0; i < available_cpus(); ++i) {
        threads_.emplace_back([this] {
          for (volatile uint32_t number = 1; !stop_;) number = number * 5 + 1;
        });
      }
    } catch (const std::system_error&) {
      // If the system refuses more threads, a run has no more of them either.
    }
  }
  ~Computation() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class DiskBench {
 public:
  explicit DiskBench(const ScratchOptions& space) : memory_("host", 2 * kWindow), scratch_(space) {
    fill_with_noise(memory_);
  }

  DiskRates run() {
    DiskRates rates;
    rates.is_direct = std::all_of(scratch_.files().begin(), scratch_.files().end(),
                                  [](const Scratch::File& file) { return file.is_direct; });
    // The first write of a place is slower, and a run writes each many times.
    written_ = scratch_.bytes();
    written_ = pass(DiskDirection::kWrite, kRequest, kRequests, kSeconds).bytes;
    const Pass writing = pass(DiskDirection::kWrite, kRequest, kRequests, kSeconds);
    sample_cpus();
    const Pass reading = pass(DiskDirection::kRead, kRequest, kRequests, kSeconds);
    sample_cpus();
    rates.write = {.bytes_per_second = writing.rate(), .cores = writing.cores};
    rates.read = {.bytes_per_second = reading.rate(), .cores = reading.cores};
    measure_both(rates);
    sample_cpus();
    rates.write.latency_seconds = latency(DiskDirection::kWrite, writing.rate());
    rates.read.latency_seconds = latency(DiskDirection::kRead, reading.rate());
    sample_cpus();
    rates.cpu_share = cpu_share_.value();
    return rates;
  }

 private:
  static constexpr int64_t kWindow = kRequest * kRequests;

  // Samples between passes, since a probe would disturb their threads.
  void sample_cpus() {
    for (int i = 0; i < 3; ++i) cpu_share_.sample();
  }

  [[nodiscard]] Stream stream(DiskDirection direction, int64_t begin, int64_t bytes) const {
    const bool writes = direction == DiskDirection::kWrite;
    return {begin, bytes, direction, span_of(memory_.at(writes ? 0 : kWindow), kWindow)};
  }

  // Makes one pass over the bytes that have been written.
  Pass pass(DiskDirection direction, int64_t request_bytes, int64_t in_flight, double max_seconds) {
    return start([&] {
             return run_pass(scratch_, stream(direction, 0, written_), request_bytes, in_flight, max_seconds, written_);
           })
        .get();
  }

  void measure_both(DiskRates& rates) {
    const int64_t half = written_ / 2 / kRequest * kRequest;
    if (half == 0) return;
    const auto run = [&](DiskDirection direction, int64_t begin) {
      return start([=, this] {
        return run_pass(scratch_, stream(direction, begin, half), kRequest, kRequests, kSecondsOfBoth);
      });
    };
    std::future<Pass> writing = run(DiskDirection::kWrite, 0), reading = run(DiskDirection::kRead, half);
    rates.write.beside_opposite = writing.get().rate();
    rates.read.beside_opposite = reading.get().rate();
  }

  double latency(DiskDirection direction, double rate) {
    const Computation computation;
    const Pass small = pass(direction, kSmallRequest, 1, kSecondsOfLatency);
    return std::max(0.0, static_cast<double>(kSmallRequest) * (1 / small.rate() - 1 / rate));
  }

  Arena memory_;
  Scratch scratch_;
  ThreadPool pool_{available_cpus()};
  CpuShare cpu_share_{pool_};
  int64_t written_ = 0;
};

}  // namespace

DiskRates measure_disks(const std::vector<std::string>& folders, int64_t max_bytes) {
  DiskRates rates;
  const int64_t bytes = std::min(max_bytes, free_striped_bytes(folders) / 8) / kRequest * kRequest;
  if (bytes == 0) {
    rates.problem = fmt::format("less than {} free", format_bytes(8 * kRequest));
    return rates;
  }
  try {
    ScratchOptions space{.bytes = bytes};
    for (const std::string& folder : folders) space.folders.push_back(existing_folder(folder));
    return DiskBench(space).run();
  } catch (const std::exception& error) {
    rates = {.problem = error.what()};
  }
  return rates;
}

void set_disks(Machine& machine, const std::vector<std::string>& folders, const DiskRates& rates) {
  machine.disks = disks_of(folders);
  machine.cpu_shares.disks = rates.cpu_share;
  const bool is_cpu = machine.device == DeviceKind::kCpu;
  const auto set = [&](Lane disk, Lane link, const DiskRate& rate) {
    const double alone = rate.bytes_per_second, beside = rate.beside_opposite;
    // With a device of its own a disk lane also uses the link, both at once; with a CPU it takes a part of a core.
    nth(machine.link_bytes_per_second, disk) =
        is_cpu ? alone : std::min(alone, nth(machine.link_bytes_per_second, link));
    nth(machine.compute_share, disk) = is_cpu ? std::min(1.0, rate.cores) / machine.threads : 0;
    nth(machine.opposite_share, disk) = alone > 0 && beside > 0 ? std::max(0.0, 1 - beside / alone) : 0;
    nth(machine.link_latency_seconds, disk) = rate.latency_seconds;
    nth(machine.measured.link_bytes_per_second, disk) = 0;
  };
  set(Lane::kDiskRead, Lane::kHostToDevice, rates.read);
  set(Lane::kDiskWrite, Lane::kDeviceToHost, rates.write);
}

}  // namespace spillway
