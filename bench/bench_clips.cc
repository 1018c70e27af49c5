// Measures the time and memory of reading rows of video latents.
//
//   bench_clips PATH [--order file|shuffled] [--in-flight N] [--channels N] [--text-width N]
//
// Without --in-flight rows are read one after the other; with it they become samples in a thread ahead.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "data/clips/clip_stream.h"

using namespace spillway;
using namespace spillway::data;

namespace {

template <typename Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::string option(int argc, char** argv, const char* name, const std::string& otherwise) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return otherwise;
}

void run(int argc, char** argv) {
  const ClipDemands demands{.channels = std::stoll(option(argc, argv, "--channels", "16")),
                            .max_positions = 1024,
                            .text_width = std::stoll(option(argc, argv, "--text-width", "4096"))};
  std::shared_ptr<const ClipRows> rows;
  const double opening = seconds_of([&] {
    rows = std::make_shared<const ClipRows>(std::vector{DatasetConfig{.path = argv[1]}}, demands, "datasets");
  });
  fmt::print("{} rows opened in {:.2f} s, peak {:.0f} MiB\n", rows->size(), opening, peak_mib());
  const bool is_file_order = option(argc, argv, "--order", "shuffled") == "file";
  const auto order = order_of_epoch(rows->size(), is_file_order ? RowOrder::kFile : RowOrder::kShuffled, 42, 0);
  const int64_t in_flight = std::stoll(option(argc, argv, "--in-flight", "0"));
  double longest = 0;
  const double seconds = seconds_of([&] {
    if (in_flight == 0) {
      for (const int64_t row : order) longest = std::max(longest, seconds_of([&] { (void)rows->read(row); }));
      return;
    }
    ClipStream stream(
        rows, {},
        [&, at = size_t{0}]() mutable -> std::optional<ClipTurn> {
          if (at == order.size()) return {};
          const auto sample = static_cast<int64_t>(at);
          return ClipTurn{.row = order[at++], .sample = sample, .timestep = {}};
        },
        in_flight);
    while (stream.next()) {
    }
  });
  fmt::print("{:.3f} s a row, the longest {:.2f}, peak {:.0f} MiB\n", seconds / static_cast<double>(order.size()),
             longest, peak_mib());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_clips PATH [--order file|shuffled] [--in-flight N]\n");
    return 2;
  }
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
