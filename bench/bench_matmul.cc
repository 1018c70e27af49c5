// Matrix products of fine-tuning: ours beside oneDNN's, in turns within one run, so that a noisy machine hits both.
//
//   bench_matmul [--threads N] [--rounds N] [--only TEXT] [--dtype bf16] [--isa NAME]
//
// A line holds the best and the median rate of each, the share of what the CPU's registers can do (a tile in the first
// cache, times the threads) and the ratio of the best times. oneDNN gets plain layouts, as the engine's values are, and
// its primitives are made before the clock starts. With one thread the clock is that thread's CPU time, so that what
// else runs on the machine counts only by what it does to caches and memory.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/random.h"
#include "cpu_clock.h"
#include "ops/matmul/cpu/kernels.h"
#include "ops/matmul/cpu/product.h"

#if defined(SPILLWAY_BENCH_ONEDNN)
#include <dnnl.hpp>

extern "C" void omp_set_num_threads(int);
#endif

namespace {

using namespace spillway;
using namespace spillway::cpu;
using bench::now;

struct Case {
  std::string name;
  MatmulShape shape;
  bool adds = false;  // whether the product is added to what C holds
};

// `tokens` rows through the layers of a model with these sizes, and back.
void add_model(std::vector<Case>& cases, const std::string& model, int64_t tokens, int64_t hidden, int64_t ffn,
               int64_t kv) {
  const auto add = [&](const char* layer, int64_t in, int64_t out) {
    const std::string where = fmt::format("{} {}", model, layer);
    cases.push_back({where + " forward", {tokens, out, in, false, true}});
    cases.push_back({where + " dx", {tokens, in, out, false, false}});
    cases.push_back({where + " dw", {out, in, tokens, true, false}});
  };
  add("q", hidden, hidden);
  add("kv", hidden, kv);
  add("up", hidden, ffn);
  add("down", ffn, hidden);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_model(cases, "smollm2", 512, 576, 1536, 192);
  add_model(cases, "smollm2", 2048, 576, 1536, 192);
  add_model(cases, "qwen2.5", 2048, 896, 4864, 128);
  cases.push_back({"smollm2 head forward", {512, 49152, 576, false, true}});
  cases.push_back({"smollm2 head dx", {512, 576, 49152, false, false}});
  cases.push_back({"smollm2 head dw", {49152, 576, 512, true, false}});
  for (const int64_t rank : {8, 16, 64}) {
    const std::string lora = fmt::format("lora r={} ", rank);
    cases.push_back({lora + "x A^T", {2048, rank, 576, false, true}});
    cases.push_back({lora + "z B^T", {2048, 576, rank, false, true}});
    cases.push_back({lora + "+ z B^T", {2048, 576, rank, false, true}, true});
    cases.push_back({lora + "+ dz A", {2048, 1536, rank, false, false}, true});
    cases.push_back({lora + "dB", {576, rank, 2048, true, false}});
    cases.push_back({lora + "dA", {rank, 576, 2048, true, false}});
  }
  for (const int64_t rows : {1, 4, 16, 64}) {
    cases.push_back({"generate up", {rows, 4864, 896, false, true}});
    cases.push_back({"generate head", {rows, 49152, 576, false, true}});
  }
  return cases;
}

// Memory in huge pages, if the system has them, as the engine's is.
class Buffer {
 public:
  Buffer(int64_t elems, DType dtype, uint64_t stream) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t bytes = (static_cast<size_t>(elems * size_of(dtype)) + kHugePage) / kHugePage * kHugePage;
    memory_.reset(std::aligned_alloc(kHugePage, bytes));
    madvise(data(), bytes, MADV_HUGEPAGE);
    RandomStream random(1, stream);
    for (int64_t i = 0; i < elems; ++i) {
      const float value = random.uniform() - 0.5f;
      if (dtype == DType::kF32) {
        static_cast<float*>(data())[i] = value;
      } else {
        static_cast<bf16*>(data())[i] = to_bf16(value);
      }
    }
  }
  [[nodiscard]] void* data() { return memory_.get(); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

#if defined(SPILLWAY_BENCH_ONEDNN)
class Peer {
 public:
  Peer(const MatmulArgs& args, int threads) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(threads);
    using dnnl::memory;
    const MatmulShape& s = args.shape;
    const auto type = [](DType t) { return t == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16; };
    const auto tag = [](bool transposed) { return transposed ? memory::format_tag::ba : memory::format_tag::ab; };
    const memory::desc a({s.m, s.k}, type(args.a.dtype), tag(s.transpose_a));
    const memory::desc b({s.k, s.n}, type(args.b.dtype), tag(s.transpose_b));
    const memory::desc c({s.m, s.n}, type(args.c_dtype), memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(engine_, a, b, c));
#else
    primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine_));
#endif
    values_ = {{DNNL_ARG_SRC, memory(a, engine_, const_cast<void*>(args.a.data))},
               {DNNL_ARG_WEIGHTS, memory(b, engine_, const_cast<void*>(args.b.data))},
               {DNNL_ARG_DST, memory(c, engine_, args.c)}};
  }
  void run() {
    primitive_.execute(stream_, values_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> values_;
};
#endif

struct Times {
  std::vector<double> seconds;
  void measure(const std::function<void()>& run, int repeats) {
    const double begin = now();
    for (int i = 0; i < repeats; ++i) run();
    seconds.push_back((now() - begin) / repeats);
  }
  [[nodiscard]] double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// Flops a second of one core whose panels lie in the first-level cache.
double tile_peak(bool pairs) {
  const MatmulKernels::Tiles& tiles = best_matmul_kernels().of(pairs ? PanelFormat::kBF16Pairs : PanelFormat::kF32);
  const MatmulKernels::Tile tile = tiles.wide[tiles.rows - 1];
  constexpr int64_t kUnits = 256;
  alignas(64) static float left[kUnits * MatmulKernels::kMaxRows], right[kUnits * MatmulKernels::kMaxColumns];
  alignas(64) static float sums[MatmulKernels::kMaxRows * MatmulKernels::kMaxColumns];
  const TileLeft panel = tiles.packed(left, tiles.rows);
  const TileRun whole(tiles);
  Times times;
  for (int run = 0; run < 50; ++run) times.measure([&] { tile(panel, right, kUnits, sums, tiles.columns, true); }, 200);
  return 2.0 * (pairs ? 2 : 1) * kUnits * tiles.rows * tiles.columns / times.best();
}

void run_case(const Case& c, DType dtype, Bf16Path path, ThreadPool& pool, int rounds, double peak) {
  const auto [m, n, k, transpose_a, transpose_b, tail] = c.shape;
  Buffer a(m * k, dtype, 1), b(n * k, dtype, 2), ours(m * n, dtype, 3), theirs(m * n, dtype, 4);
  MatmulArgs args;
  args.shape = c.shape;
  args.a = {.data = a.data(), .dtype = dtype, .stride = transpose_a ? m : k};
  args.b = {.data = b.data(), .dtype = dtype, .stride = transpose_b ? k : n};
  args.c = ours.data();
  args.c_dtype = dtype;
  args.c_stride = n;
  if (c.adds) {
    args.addend = args.c;
    args.addend_dtype = dtype;
    args.addend_stride = n;
  }
  Buffer workspace(matmul_workspace_bytes(c.shape, dtype, dtype, pool.threads()) / 4, DType::kF32, 5);
  const std::function<void()> run = [&] {
    matmul_with(best_matmul_kernels(), path, args, static_cast<std::byte*>(workspace.data()), pool);
  };
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int repeats = std::max(1, static_cast<int>(2e8 / flops));

  Times mine, peer;
  run();
#if defined(SPILLWAY_BENCH_ONEDNN)
  MatmulArgs their_args = args;
  their_args.c = theirs.data();
  Peer onednn(their_args, pool.threads());
  onednn.run();
#endif
  for (int round = 0; round < rounds; ++round) {
    mine.measure(run, repeats);
#if defined(SPILLWAY_BENCH_ONEDNN)
    peer.measure([&] { onednn.run(); }, repeats);
#endif
  }
  const auto rate = [&](double seconds) { return flops / seconds * 1e-9; };
  const std::string peer_text = peer.seconds.empty() ? "| - | - | - "
                                                     : fmt::format("| {:.0f} | {:.0f} | {:.2f} ", rate(peer.best()),
                                                                   rate(peer.median()), peer.best() / mine.best());
  fmt::print("| {} | {} x {} x {} | {} | {:.0f} | {:.0f} | {:.0f} % {}|\n", c.name, m, n, k, name_of(dtype),
             rate(mine.best()), rate(mine.median()), 100 * rate(mine.best()) / peak, peer_text);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = available_cpus(), rounds = 15;
  bool bf16_only = false;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::stoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::stoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--dtype") == 0) bf16_only = std::strcmp(argv[i + 1], "bf16") == 0;
    if (std::strcmp(argv[i], "--isa") == 0) cpu::limit_isa(argv[i + 1]);
  }
  bench::use_clock_for(threads);
  ThreadPool pool(threads);
  const Bf16Path path = choose_bf16_path();
  const bool pairs = path == Bf16Path::kNativeDot;
  const double f32_peak = tile_peak(false) * threads * 1e-9;
  const double bf16_peak = pairs ? tile_peak(true) * threads * 1e-9 : f32_peak;
  fmt::print("kernels {}, bf16 {}, {} threads, {} rounds; peak of the tiles: f32 {:.0f}, bf16 {:.0f} GFLOP/s\n\n",
             best_matmul_kernels().name, pairs ? "native" : "widened", threads, rounds, f32_peak, bf16_peak);
  fmt::print("| product | m x n x k | dtype | best | median | of peak | oneDNN best | median | ours / oneDNN |\n");
  fmt::print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const Case& c : all_cases()) {
    if (c.name.find(only) == std::string::npos) continue;
    run_case(c, DType::kBF16, path, pool, rounds, bf16_peak);
    if (!bf16_only) run_case(c, DType::kF32, path, pool, rounds, f32_peak);
  }
}
