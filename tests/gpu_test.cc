// On a GPU: `./test --gpu` runs the cases whose names say so, and sets SPILLWAY_REQUIRE_GPU. A build without CUDA has
// none of them; on a machine without a GPU they say so and pass. Those of the suite "compute-sanitizer" run under each
// of its tools, too, and are short.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/arena.h"
#include "backend/device.h"
#include "backend/kernel.h"
#include "base/bytes.h"
#include "base/index.h"
#include "base/random.h"
#include "base/sizes.h"
#include "base/temporary_folder.h"
#include "dist/testing/local_peers.h"
#include "graph/operation.h"
#include "job/tiers.h"
#include "ops/collectives/device_peers.h"
#include "ops/matmul/matmul.h"
#include "plan/testing/random_plan.h"
#include "tests/support/require_gpu.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// f32 or bf16 content, in memory of either device.
struct Tensor {
  Device::Memory memory;
  TensorView view;

  Tensor(Device& device, const ValueType& type)
      : memory(device.allocate("device", type.bytes())), view{memory.get(), type.dtype, type.shape} {}
};

void copy_now(Device& device, void* to, const void* from, int64_t bytes) {
  const std::unique_ptr<DeviceQueue> queue = device.make_queue();
  queue->copy(to, from, bytes);
  queue->finish();
}

struct ProductCase {
  DType a, b, added, out;  // `added` is the type of addend and bias
  bool transpose_a, transpose_b, has_addend, has_bias;
  int64_t m, n, k;
  bool in_place = false;  // of the addend, which has the result's type then
};

// The product on a device, as f32.
std::vector<float> product_on(Device& device, const ProductCase& c) {
  Graph graph{.name = "product"};
  Builder builder(graph);
  const ValueType a{c.a, c.transpose_a ? Shape{c.k, c.m} : Shape{c.m, c.k}};
  const ValueType b{c.b, c.transpose_b ? Shape{c.n, c.k} : Shape{c.k, c.n}};
  const ValueType addend{c.added, {c.m, c.n}}, bias{c.added, {c.n}};
  const ValueId x = builder.input("a", a, ValueKind::kBatch), y = builder.input("b", b, ValueKind::kBatch);
  const ValueId z = c.has_addend ? builder.input("addend", addend, ValueKind::kBatch) : kNone;
  const ValueId row = c.has_bias ? builder.input("bias", bias, ValueKind::kBatch) : kNone;
  const ValueId result = ops::matmul(builder, x, y,
                                     {.transpose_a = c.transpose_a,
                                      .transpose_b = c.transpose_b,
                                      .alpha = 0.5,
                                      .addend = z,
                                      .bias = row,
                                      .out_dtype = c.out});
  const OpId id = graph.value(result).producer;
  const ValueType out = graph.value(result).type;

  std::vector<Tensor> tensors;
  for (const ValueType& type : {a, b, addend, bias, out}) tensors.emplace_back(device, type);
  for (size_t i = 0; i < 4; ++i) {
    RandomStream random(7, i);
    const TensorView& view = tensors[i].view;
    std::vector<std::byte> content(static_cast<size_t>(view.bytes()));
    for (int64_t k = 0; k < view.elems(); ++k) {
      const float number = static_cast<float>(random.uniform()) - 0.5f;
      // bf16 is the upper half of f32.
      const auto bits = std::bit_cast<uint32_t>(number);
      const auto upper = static_cast<uint16_t>(bits >> 16);
      if (view.dtype == DType::kF32) std::memcpy(content.data() + 4 * k, &number, 4);
      if (view.dtype == DType::kBF16) std::memcpy(content.data() + 2 * k, &upper, 2);
    }
    copy_now(device, view.data, content.data(), view.bytes());
  }
  const int64_t scratch = std::max<int64_t>(64, workspace_of(graph, id, 1, device.kind()));
  const Device::Memory workspace = device.allocate("device", scratch);
  ThreadPool pool(1);
  const std::array inputs = {tensors[0].view, tensors[1].view, c.has_addend ? tensors[2].view : TensorView{},
                             c.has_bias ? tensors[3].view : TensorView{}};
  const std::array outputs = {tensors[c.in_place ? 2 : 4].view};
  const std::unique_ptr<DeviceQueue> queue = device.make_queue();
  queue->run(graph.op(id).def->kernel(device.kind()), {.inputs = inputs,
                                                       .outputs = outputs,
                                                       .workspace = workspace.get(),
                                                       .attributes = graph.op(id).attributes,
                                                       .threads = &pool});
  queue->finish();
  std::vector<std::byte> content(static_cast<size_t>(out.bytes()));
  copy_now(device, content.data(), outputs[0].data, out.bytes());
  std::vector<float> numbers(static_cast<size_t>(out.shape.elems()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t bits = 0;
    if (out.dtype == DType::kF32) std::memcpy(&bits, content.data() + 4 * i, 4);
    if (out.dtype == DType::kBF16) std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, content.data() + 2 * i, 2);
    numbers[i] = std::bit_cast<float>(bits);
  }
  return numbers;
}

// Against the CPU's before it is rounded.
void check_product(Device& gpu, const ProductCase& c) {
  ProductCase exact = c;
  exact.out = DType::kF32;
  const std::vector<float> expected = product_on(cpu_device(), exact), got = product_on(gpu, c);
  const double order = 2e-6 * static_cast<double>(c.k);  // sums of k products below 1/4 in another order
  const double half_unit = c.out == DType::kBF16 ? 0x1p-8 : 0;
  // Some of the library's kernels round a product in bf16 before they add to it what it is to be added to, as PyTorch's
  // do (seen with cuBLASLt 13.1); addends are below 1/2.
  const bool may_round_twice = c.has_addend && c.added == DType::kBF16;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i], size = std::abs(want);
    const double rounding = half_unit * (may_round_twice ? 2 * size + 0.5 : size);
    REQUIRE(std::abs(static_cast<double>(got[i]) - want) <= order + rounding);
  }
}

struct Result {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> state;
};

Result train_on(Device& device, const TinySetup& setup, const std::optional<uint64_t>& seed) {
  const TemporaryFolder folder;
  std::unique_ptr<train::JobTiers> tiers;
  train::Job job = tiny_job(kGoldenModels / "qwen3", setup);
  job.config.memory.disk_paths = {folder.path().string()};
  Machine machine{.device = device.kind(), .threads = setup.threads};
  machine.link_bytes_per_second.fill(1e9);
  TinyTraining training(job, machine, [&](train::PlannedJob& planned) {
    if (seed) {
      RandomStream random(*seed, 31);
      plan_again(planned, random_choices(planned.training.graph, random), machine);
    }
    tiers = std::make_unique<train::JobTiers>(job, planned, device);
    return tiers->options();
  });
  Result result;
  const std::vector<FlatBatch> micro_batches = all_micro_batches();
  for (int64_t step = 0; step < 2; ++step) {
    result.losses.push_back(
        training.accumulate(std::span(micro_batches).subspan(2 * static_cast<size_t>(step), 2), 0.01, step));
    result.losses.push_back(training.update());
  }
  const Graph& graph = training.training().graph;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    if (graph.is_persistent(id)) result.state.push_back(training.bytes(id));
  }
  return result;
}

}  // namespace

TEST_CASE("on a GPU: copies keep every byte, and a queue waits for another's event" * doctest::skip(!kHasCuda) *
          doctest::test_suite("compute-sanitizer")) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  constexpr int64_t kBytes = 64 * kMiB + 12;
  const Arena from("host", kBytes), to("host", kBytes);
  RandomStream random(1, 0);
  for (int64_t i = 0; i + 4 <= kBytes; i += 4) {
    const uint32_t bits = random.next();
    std::memcpy(from.at(i), &bits, 4);
  }
  const Device::Pinned pinned = gpu->pin({from.at(0), static_cast<size_t>(kBytes)});
  const Device::Memory memory = gpu->allocate("device", 2 * kBytes);
  const auto up = gpu->make_queue(), across = gpu->make_queue(), down = gpu->make_queue();
  const auto arrived = gpu->make_event(), moved = gpu->make_event();
  up->copy(memory.get(), from.at(0), kBytes);
  up->record(*arrived);
  across->wait(*arrived);
  across->copy(memory.get() + kBytes, memory.get(), kBytes);
  across->record(*moved);
  down->wait(*moved);
  down->copy(to.at(0), memory.get() + kBytes, kBytes);
  down->finish();
  CHECK(std::memcmp(from.at(0), to.at(0), static_cast<size_t>(kBytes)) == 0);
  CHECK(moved->has_happened());
  CHECK(moved->seconds_since(*arrived) > 0);
}

TEST_CASE("on a GPU: matrix products are those of the CPU" * doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16};
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
    const ProductCase c{kTypes[bit(0)], kTypes[bit(1)], kTypes[bit(2)],   kTypes[bit(3)],   bit(4),           bit(5),
                        bit(6),         bit(7),         bit(0) ? 96 : 40, bit(1) ? 64 : 24, bit(2) ? 200 : 72};
    CAPTURE(bits);
    check_product(*gpu, c);
  }
}

TEST_CASE("on a GPU: a product has the same bits in its addend's place as beside it" * doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  // The sizes have few rows, whose sums the library splits to fill a GPU; the sizes of tiny models and LoRA; and large
  // ones.
  constexpr std::array<int64_t, 3> kSizes[] = {{1, 32, 48},  {18, 32, 48},   {33, 32, 48},     {37, 48, 32},
                                               {48, 32, 48}, {64, 64, 4096}, {2048, 1024, 16}, {512, 1024, 1024}};
  for (const std::array<int64_t, 3>& size : kSizes) {
    for (uint32_t bits = 0; bits < 4; ++bits) {
      const DType dtype = (bits & 1) != 0 ? DType::kBF16 : DType::kF32;
      ProductCase c{dtype, dtype, dtype, dtype, false, true, true, (bits & 2) != 0, size[0], size[1], size[2]};
      CAPTURE(bits);
      CAPTURE(c.m);
      CAPTURE(c.k);
      check_product(*gpu, c);
      const std::vector<float> beside = product_on(*gpu, c);
      c.in_place = true;
      const bool same_bits = product_on(*gpu, c) == beside;
      CHECK(same_bits);
    }
  }
}

TEST_CASE("on a GPU: every operation of a training step has a kernel" * doctest::skip(!kHasCuda)) {
  for (const char* adapter : {"", "adapter"}) {
    const TinySetup setup{.adapter = adapter, .dropout = *adapter ? 0.1 : 0};
    const train::Job job = tiny_job(kGoldenModels / "qwen3", setup);
    const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
    const auto has_kernel = [](const Operation& op) { return op.def->cuda != nullptr; };
    for (const Operation& op : training.graph.ops) {
      CAPTURE(op.def->name);
      CHECK(has_kernel(op));
    }
  }
}

TEST_CASE("on a GPU: a tiny model trains as on the CPU, and plans do not change a bit" * doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  for (const char* adapter : {"", "adapter"}) {
    CAPTURE(adapter);
    const TinySetup setup{.adapter = adapter};
    const Result expected = train_on(cpu_device(), setup, {}), plain = train_on(*gpu, setup, {});
    for (size_t i = 0; i < expected.losses.size(); ++i)
      CHECK(plain.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-4));
    for (uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      const Result moved = train_on(*gpu, setup, seed);
      CHECK(moved.losses == plain.losses);
      CHECK(moved.state == plain.state);
    }
  }
}

TEST_CASE("GPU: the communicator of one rank folds, gathers and copies on the GPU" * doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  const GpuSurvey survey = survey_gpus();
  const auto is_nccl = [](const GpuSurvey::Library& one) { return one.name == "NCCL"; };
  if (std::none_of(survey.libraries.begin(), survey.libraries.end(), is_nccl)) {
    MESSAGE("skipped, no NCCL");
    return;
  }
  const std::vector<std::unique_ptr<Peers>> host = local_peers(1);
  const std::unique_ptr<Peers> peers = ops::join_gpus(*host[0], 0, 60);
  for (const int64_t elems : {5000, 8192}) {  // less than a part, and all of it
    CAPTURE(elems);
    const ValueType type{DType::kF32, {elems}};
    const Cut cut = cut_of(elems, 1);
    const Tensor whole(*gpu, type), part(*gpu, {DType::kF32, {cut.part_elems}}), gathered(*gpu, type);
    std::vector<float> numbers(static_cast<size_t>(elems)), got(numbers.size());
    for (int64_t i = 0; i < elems; ++i) nth(numbers, i) = static_cast<float>(i % 977) / 7;
    copy_now(*gpu, whole.view.data, numbers.data(), type.bytes());
    peers->clear(part.view.as<std::byte>(), part.view.bytes());
    for (int times = 0; times < 3; ++times)
      peers->fold(span_of(whole.view.as<const float>(), elems), span_of(part.view.as<float>(), cut.part_elems), cut,
                  {.contributors = 1});
    peers->gather(span_of(part.view.as<const std::byte>(), part.view.bytes()),
                  span_of(gathered.view.as<std::byte>(), type.bytes()), cut, sizeof(float));
    peers->copy(whole.view.as<std::byte>(), gathered.view.as<std::byte>(), type.bytes());
    peers->finish();
    copy_now(*gpu, got.data(), whole.view.data, type.bytes());
    for (float& number : numbers) number = (number + number) + number;
    CHECK(got == numbers);
  }
}
