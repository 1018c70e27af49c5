// The disk tier beside fio with O_DIRECT, on the same path and in turns within one run, so that a noisy disk hits both.
//
//   bench_disk --path FOLDER [--gib N] [--rounds N] [--pause SECONDS] [--block KIB] [--depth N]
//
// For each request size the tier is written and read from end to end, by both back ends; fio does the same with that
// block size and with as many bytes in flight. A line holds the median rate of each and the ratio to fio; every rate
// goes to standard error. Both have their memory in huge pages (ours as the arenas have it, fio's by a setting of
// glibc): with small ones a virtual disk may take a third of the rate. Disks of rented machines are throttled after a
// burst: each pass begins after the same pause, and who comes first changes with the round.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "io/disk_queue.h"

namespace {

using namespace spillway;
namespace fs = std::filesystem;

// The bytes that requests have in flight together, ours and fio's.
constexpr int64_t kWindow = 32 * kMiB;

struct Options {
  fs::path path;
  int64_t bytes = 2 * kGiB;
  int rounds = 5;
  double pause_seconds = 1;
  int64_t block_bytes = kMiB;
  int32_t depth = 16;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Moves the whole space once, as a lane does: the next request is submitted before the last has finished. Bytes a
// second.
double stream(DiskQueue& queue, int64_t bytes, int64_t request_bytes, std::span<std::byte> window,
              DiskDirection direction) {
  const double begin = now();
  const int64_t places = std::ssize(window) / request_bytes;
  std::vector<DiskQueue::Ticket> tickets(static_cast<size_t>(places));
  for (int64_t i = 0; i < bytes / request_bytes; ++i) {
    const size_t place = static_cast<size_t>(i % places);
    if (i >= places) queue.wait(tickets[place]);
    const auto memory = window.subspan(place * static_cast<size_t>(request_bytes), static_cast<size_t>(request_bytes));
    tickets[place] = direction == DiskDirection::kWrite ? queue.write_scratch(i * request_bytes, memory)
                                                        : queue.read_scratch(i * request_bytes, memory);
  }
  queue.drain();
  return static_cast<double>(bytes) / (now() - begin);
}

// Bytes per second; 0 where there is no fio.
double run_fio(const Options& options, int64_t request_bytes, DiskDirection direction) {
  const std::string rw = direction == DiskDirection::kWrite ? "write" : "read";
  const std::string command = fmt::format(
      "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --name=bench --filename='{}' --size={} --bs={} --iodepth={} --rw={} "
      "--direct=1 --ioengine=io_uring "
      "--fixedbufs --registerfiles --output-format=json 2>/dev/null",
      (options.path / "fio.tmp").string(), options.bytes, request_bytes, kWindow / request_bytes, rw);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return 0;
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = std::fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  if (::pclose(pipe) != 0) return 0;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_discarded() ? 0 : json["jobs"][0][rw]["bw_bytes"].get<double>();
}

void run_case(const Options& options, Scratch& scratch, std::vector<std::unique_ptr<DiskQueue>>& queues,
              std::span<std::byte> window, int64_t request_bytes, DiskDirection direction) {
  std::map<std::string, std::vector<double>> rates;
  std::vector<std::pair<std::string, std::function<double()>>> passes;
  passes.emplace_back("fio", [&] { return run_fio(options, request_bytes, direction); });
  for (const auto& queue : queues) {
    passes.emplace_back(queue->backend_name(),
                        [&] { return stream(*queue, scratch.bytes(), request_bytes, window, direction); });
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (const auto& [engine, pass] : passes) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_seconds));
      rates[engine].push_back(pass());
    }
    std::rotate(passes.begin(), passes.begin() + 1, passes.end());
  }
  const double fio = median(rates["fio"]);
  std::string line = fmt::format("| {} | {} | {:.2f} |", direction == DiskDirection::kWrite ? "write" : "read",
                                 format_bytes(request_bytes), fio * 1e-9);
  std::string raw;
  for (auto& [engine, values] : rates) {
    if (engine != "fio") line += fmt::format(" {:.2f} | {:.2f} |", median(values) * 1e-9, median(values) / fio);
    for (double& value : values) value *= 1e-9;
    raw += fmt::format(" {} {:.2f}", engine, fmt::join(values, " "));
  }
  fmt::print("{}\n", line);
  fmt::print(stderr, "{}\n", raw);
  std::fflush(stdout);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--path") options.path = argv[i + 1];
    if (key == "--gib") options.bytes = std::stoll(argv[i + 1]) * kGiB;
    if (key == "--rounds") options.rounds = std::stoi(argv[i + 1]);
    if (key == "--pause") options.pause_seconds = std::stod(argv[i + 1]);
    if (key == "--block") options.block_bytes = std::stoll(argv[i + 1]) * kKiB;
    if (key == "--depth") options.depth = std::stoi(argv[i + 1]);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.path.empty()) {
    fmt::print(stderr,
               "usage: bench_disk --path FOLDER [--gib N] [--rounds N] [--pause SECONDS] [--block KIB] [--depth N]\n");
    return 2;
  }
  void* memory = ::mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::madvise(memory, kWindow, MADV_HUGEPAGE);
  const std::span<std::byte> window(static_cast<std::byte*>(memory), kWindow);
  // Not zeros, which some disks do not write.
  RandomStream random(1, 1);
  for (int64_t at = 0; at < kWindow; at += 4) {
    const uint32_t noise = random.next();
    std::memcpy(window.data() + at, &noise, 4);
  }
  Scratch scratch({.folders = {options.path}, .bytes = options.bytes, .stripe_bytes = options.block_bytes});
  std::vector<std::unique_ptr<DiskQueue>> queues;
  for (const MakeDiskBackend& make : {MakeDiskBackend(make_uring_backend), MakeDiskBackend(make_thread_backend)}) {
    queues.push_back(std::make_unique<DiskQueue>(
        &scratch,
        DiskQueueOptions{
            .depth = options.depth, .block_bytes = options.block_bytes, .memory = {window}, .backend = make}));
  }
  // The first pass over a reserved file allocates on some file systems; what counts is all the later ones.
  stream(*queues[0], scratch.bytes(), 4 * kMiB, window, DiskDirection::kWrite);
  run_fio(options, 4 * kMiB, DiskDirection::kWrite);

  fmt::print("{} a pass, {} rounds, blocks of {}, depth {}; GB/s\n\n", format_bytes(options.bytes), options.rounds,
             format_bytes(options.block_bytes), options.depth);
  fmt::print(
      "| | request | fio | io_uring | / fio | threads | / fio |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const DiskDirection direction : {DiskDirection::kWrite, DiskDirection::kRead}) {
    for (const int64_t request : {kMiB, 4 * kMiB, 16 * kMiB}) {
      run_case(options, scratch, queues, window, request, direction);
    }
  }
  std::error_code ignored;
  fs::remove(options.path / "fio.tmp", ignored);
}
