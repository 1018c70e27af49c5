// Products with quantised weights beside the same products with bf16 weights, in turns within one run.
//
//   bench_quantised_matmul [--threads N] [--rounds N] [--only TEXT] [--tokens N] [--isa NAME]
//
// Weights are taken in turn from as many as do not fit in the caches, as in a model. A line holds the rate of the bf16
// product, its weights' bytes per second, and what the formats reach of its rate (1.00: as fast as bf16). With one
// thread the clock is that thread's CPU time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/bytes.h"
#include "base/index.h"
#include "base/math.h"
#include "base/random.h"
#include "cpu_clock.h"
#include "ops/matmul/cpu/product.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace {

using namespace spillway;
using bench::now;

// 64-byte aligned bytes that stand for finite small numbers in any format.
class Buffer {
 public:
  Buffer(int64_t bytes, uint64_t stream) : memory_(static_cast<size_t>(bytes + 64)) {
    RandomStream random(1, stream);
    for (int64_t i = 0; i + 4 <= bytes; i += 4) {
      const float value = (random.uniform() - 0.5f) * 0.1f;
      std::memcpy(data() + i, &value, 4);
    }
  }
  [[nodiscard]] std::byte* data() {
    return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }

 private:
  std::vector<std::byte> memory_;
};

struct Case {
  std::string name;
  int64_t tokens, rows, columns;
  bool transpose;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [model, hidden, ffn] : {std::tuple{"135M", int64_t{576}, int64_t{1536}}, {"1.5B", 1536, 8960}}) {
    for (const int64_t tokens : {1, 4, 8, 12, 16, 24, 32, 64, 512, 2048}) {
      for (const bool transpose : {true, false}) {
        const char* const way = transpose ? "forward" : "dx";
        cases.push_back({fmt::format("{} up {}", model, way), tokens, ffn, hidden, transpose});
        cases.push_back({fmt::format("{} down {}", model, way), tokens, hidden, ffn, transpose});
      }
    }
  }
  return cases;
}

// A weight in some form, as the product takes it.
struct Weight {
  std::vector<std::unique_ptr<Buffer>> parts;
  ops::QuantisedWeight coded;
  cpu::MatrixDecoder decoder;
  cpu::Matrix matrix;
};

Weight make_weight(const Case& c, const QuantisedFormat* format, uint64_t stream) {
  Weight result;
  result.matrix = {nullptr, DType::kBF16, c.columns};
  if (!format) {
    result.parts.push_back(std::make_unique<Buffer>(c.rows * c.columns * 2, stream));
    result.matrix.data = result.parts[0]->data();
    return result;
  }
  std::vector<TensorView> views;
  for (const ValueType& type : ops::quantised_parts(*format, c.rows, c.columns)) {
    result.parts.push_back(std::make_unique<Buffer>(align_up(type.bytes(), 4), stream));
    views.push_back({result.parts.back()->data(), type.dtype, type.shape});
  }
  result.coded = ops::quantised_weight(*format, c.rows, c.columns, views);
  return result;
}

struct Variant {
  const QuantisedFormat* format = nullptr;  // null: bf16
  std::vector<Weight> weights;
  std::vector<double> seconds;

  [[nodiscard]] double median() {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

void run_case(const Case& c, ThreadPool& pool, int rounds) {
  const QuantisedFormat nf4, int8{.coding = WeightCoding::kInt8};
  const int64_t k = c.transpose ? c.columns : c.rows, n = c.transpose ? c.rows : c.columns;
  const cpu::MatmulShape shape{c.tokens, n, k, false, c.transpose};
  constexpr int64_t kBeyondCaches = 96 * kMiB;
  const int64_t count = std::max<int64_t>(2, kBeyondCaches / (c.rows * c.columns * 2));
  std::array<Variant, 3> variants;
  variants[1].format = &nf4;
  variants[2].format = &int8;
  for (Variant& variant : variants)
    for (int64_t i = 0; i < count; ++i)
      variant.weights.push_back(make_weight(c, variant.format, static_cast<uint64_t>(i)));
  Buffer x(c.tokens * k * 2, 91), y(c.tokens * n * 2, 92);
  Buffer workspace(cpu::decoding_matmul_workspace_bytes(shape, DType::kBF16, DType::kBF16, pool.threads()), 93);
  cpu::MatmulArgs args{
      .shape = shape, .a = {x.data(), DType::kBF16, k}, .c = y.data(), .c_dtype = DType::kBF16, .c_stride = n};
  const double flops = 2.0 * static_cast<double>(c.tokens) * static_cast<double>(c.rows * c.columns);
  const int64_t repeats = std::max<int64_t>(1, std::min<int64_t>(count, static_cast<int64_t>(1e9 / flops)));
  for (int round = 0; round < rounds; ++round) {
    for (Variant& variant : variants) {
      const double begin = now();
      for (int64_t i = 0; i < repeats; ++i) {
        Weight& weight = nth(variant.weights, i % count);
        if (variant.format) {
          weight.decoder = ops::decoder_of(weight.coded);
          weight.matrix.decoder = &weight.decoder;
        }
        args.b = weight.matrix;
        cpu::matmul(args, workspace.data(), pool);
      }
      variant.seconds.push_back((now() - begin) / static_cast<double>(repeats));
    }
  }
  const double dense = variants[0].median();
  fmt::print("| {} | {} | {:.0f} | {:.1f} | {:.2f} | {:.2f} |\n", c.name, c.tokens, flops / dense * 1e-9,
             static_cast<double>(2 * c.rows * c.columns) / dense * 1e-9, dense / variants[1].median(),
             dense / variants[2].median());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1, rounds = 9;
  int64_t tokens = 0;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--threads") threads = std::stoi(value);
    if (name == "--rounds") rounds = std::stoi(value);
    if (name == "--only") only = value;
    if (name == "--tokens") tokens = std::stoll(value);
    if (name == "--isa") cpu::limit_isa(value);
  }
  bench::use_clock_for(threads);
  ThreadPool pool(threads);
  fmt::print(
      "| product | tokens | bf16 GFLOP/s | bf16 weights GB/s | nf4 / bf16 | int8 / bf16 |\n| --- | --- | --- | --- | "
      "--- | --- |\n");
  for (const Case& c : all_cases())
    if (c.name.find(only) != std::string::npos && (tokens == 0 || c.tokens == tokens)) run_case(c, pool, rounds);
  return 0;
}
