// Quantising weights of f32: their bytes per second, beside a copy of as many bytes.
//
//   bench_quantise [--threads N] [--mib N] [--rounds N] [--isa NAME]
//
// The floor is one read of the weight and a write of the codes. With one thread the clock is that thread's CPU time.
// bench_quantised_matmul has the other direction.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/random.h"
#include "cpu_clock.h"
#include "ops/quantise/four_bit.h"
#include "ops/quantise/int8_rows.h"

namespace {

using namespace spillway;

struct Options {
  int threads = 1;
  int64_t mib = 64;
  int rounds = 7;
};

void report(std::string_view name, size_t bytes, const Options& options, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < options.rounds; ++round) {
    const double begin = bench::now();
    work();
    best = std::min(best, bench::now() - begin);
  }
  fmt::print("{:28} {:8.2f} ms {:8.2f} GB/s\n", name, best * 1e3, static_cast<double>(bytes) / best * 1e-9);
}

void run(const std::vector<float>& weight, const Options& options) {
  ThreadPool pool(options.threads);
  const size_t bytes = weight.size() * sizeof(float);
  const int64_t elems = static_cast<int64_t>(weight.size());
  std::vector<float> copy(weight.size());
  report("copy", bytes, options, [&] { std::memcpy(copy.data(), weight.data(), bytes); });
  for (const WeightCoding coding : {WeightCoding::kNf4, WeightCoding::kFp4}) {
    const QuantisedFormat format{.coding = coding};
    std::vector<uint8_t> codes(static_cast<size_t>(four_bit_code_bytes(elems)));
    std::vector<float> absmax(static_cast<size_t>(four_bit_blocks(elems, format.block_size)));
    std::vector<uint8_t> scale_codes(absmax.size());
    std::vector<float> nested((absmax.size() + 255) / 256);
    report(fmt::format("to {}", name_of(coding)), bytes, options,
           [&] { ops::quantise_four_bit(weight, format, codes, absmax, pool); });
    report(fmt::format("  scales of {} again", name_of(coding)), bytes, options,
           [&] { (void)ops::double_quantise(absmax, scale_codes, nested, pool); });
  }
  std::vector<int8_t> codes(weight.size());
  std::vector<float> absmax(weight.size() / 4096);
  report("to int8", bytes, options, [&] { ops::quantise_int8_rows(weight, codes, absmax, pool); });
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    if (key == "--threads") options.threads = std::stoi(argv[i + 1]);
    if (key == "--mib") options.mib = std::stoll(argv[i + 1]);
    if (key == "--rounds") options.rounds = std::stoi(argv[i + 1]);
    if (key == "--isa") cpu::limit_isa(argv[i + 1]);
  }
  bench::use_clock_for(options.threads);
  std::vector<float> weight(static_cast<size_t>(options.mib << 18));
  RandomStream random(1, 1);
  for (float& x : weight) x = random.uniform() - 0.5F;
  run(weight, options);
}
