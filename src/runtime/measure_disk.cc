#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>
#include <system_error>

#include "backend/arena.h"
#include "base/bytes.h"
#include "base/random.h"
#include "io/disk_queue.h"
#include "runtime/computer.h"
#include "runtime/measure.h"

namespace spillway {
namespace {

constexpr int64_t kRequest = 4 * kMiB, kRequests = 4;
constexpr double kSeconds = 1;  // of each pass

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Of this process, in the kernel's threads for its requests, too.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// Not zeros, which some disks do not write.
void fill_with_noise(const Arena& memory) {
  RandomStream random(1, 0);
  for (int64_t at = 0; at < memory.bytes(); at += 4) {
    const uint32_t noise = random.next();
    std::memcpy(memory.at(at), &noise, 4);
  }
}

struct Pass {
  int64_t bytes = 0;
  double bytes_per_second = 0;
  double cores = 0;  // that were busy
};

// Goes through the first `bytes` of the space, several requests at a time, until the time is used up.
Pass run_pass(DiskQueue& queue, const Arena& memory, int64_t bytes, DiskDirection direction) {
  const double begin = now(), cpu_begin = cpu_seconds();
  std::array<DiskQueue::Ticket, kRequests> tickets{};
  Pass pass;
  for (int64_t i = 0; pass.bytes < bytes && now() - begin < kSeconds; ++i, pass.bytes += kRequest) {
    DiskQueue::Ticket& ticket = tickets[static_cast<size_t>(i % kRequests)];
    if (i >= kRequests) queue.wait(ticket);
    const std::span piece(memory.at(i % kRequests * kRequest), kRequest);
    ticket = direction == DiskDirection::kWrite ? queue.write_scratch(pass.bytes, piece)
                                                : queue.read_scratch(pass.bytes, piece);
  }
  queue.drain();
  const double seconds = std::max(now() - begin, 1e-9);
  pass.bytes_per_second = static_cast<double>(pass.bytes) / seconds;
  pass.cores = (cpu_seconds() - cpu_begin) / seconds;
  return pass;
}

// The folder, or the nearest one above it that is there.
std::filesystem::path existing(std::filesystem::path folder) {
  std::error_code error;
  folder = std::filesystem::absolute(folder, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

}  // namespace

DiskRates measure_disk(const std::filesystem::path& folder, int64_t most_bytes) {
  DiskRates rates;
  const int64_t bytes = std::min(most_bytes, free_disk_bytes(folder) / 8) / kRequest * kRequest;
  if (bytes == 0) {
    rates.problem = fmt::format("less than {} free", format_bytes(8 * kRequest));
    return rates;
  }
  try {
    const Arena memory("host", kRequests * kRequest);
    fill_with_noise(memory);
    Scratch scratch({.folders = {existing(folder)}, .bytes = bytes});
    DiskQueue queue(&scratch, {.memory = {{memory.at(0), static_cast<size_t>(memory.bytes())}}});
    rates.is_direct = scratch.files()[0].is_direct;
    // A place that is written for the first time is slower, and a run writes each many times.
    const int64_t written = run_pass(queue, memory, bytes, DiskDirection::kWrite).bytes;
    const Pass writing = run_pass(queue, memory, written, DiskDirection::kWrite);
    const Pass reading = run_pass(queue, memory, written, DiskDirection::kRead);
    rates.write_bytes_per_second = writing.bytes_per_second;
    rates.read_bytes_per_second = reading.bytes_per_second;
    rates.write_cores = writing.cores;
    rates.read_cores = reading.cores;
  } catch (const std::exception& error) {
    rates = {.problem = error.what()};
  }
  return rates;
}

}  // namespace spillway
