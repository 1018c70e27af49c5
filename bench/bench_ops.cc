// The operations that memory bounds, and attention, on the CPU: bytes per second beside the machine's triad.
//
//   bench_ops [--threads N] [--rounds N] [--only TEXT] [--isa NAME]
//
// A line holds the best and the median time, the rate at the best by the operation's own cost (every operand once), its
// share of the best triad a[i] = b[i] + s * c[i], which runs in turns with it, so that a noisy machine hits both, and
// the arithmetic rate where the cost knows one. Operations run in place where their description allows it, as they do
// in a plan; operands are larger than the last cache, but those of attention.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/kernel.h"
#include "base/parallel.h"
#include "base/random.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/optimizers/optimizer.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/sum_rows/sum_rows.h"
#include "ops/swiglu/swiglu.h"
#include "ops/zero/zero.h"

namespace {

using namespace spillway;

constexpr int64_t kClip = 8192, kTextRows = 512;  // patches and text of a video
constexpr int64_t kTokens = 16384, kWidth = 2048, kHeadSize = 64, kParameters = 32 << 20;

class Buffer {
 public:
  explicit Buffer(int64_t bytes) : memory_(static_cast<size_t>(bytes) + 64) {}
  [[nodiscard]] std::byte* data() {
    return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }

 private:
  std::vector<std::byte> memory_;
};

// Plausible content: small reals, ids below 32, offsets of four sequences or of one, a step of 1.
// Optimizer state is not below zero: roots are drawn of some.
void fill(const Value& value, std::byte* data, uint64_t stream) {
  const ValueType& type = value.type;
  const ValueKind kind = value.kind;
  RandomStream random(1, stream);
  for (int64_t i = 0; i < type.shape.elems(); ++i) {
    const float real = random.uniform() - (kind == ValueKind::kOptimizerState ? 0.0f : 0.5f);
    if (type.dtype == DType::kU8) reinterpret_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(random.below(256));
    if (type.dtype == DType::kF32) reinterpret_cast<float*>(data)[i] = real;
    if (type.dtype == DType::kBF16) reinterpret_cast<bf16*>(data)[i] = to_bf16(real);
    if (type.dtype == DType::kI64) reinterpret_cast<int64_t*>(data)[i] = 1;
    if (type.dtype == DType::kI32) {
      reinterpret_cast<int32_t*>(data)[i] = type.shape[0] == 5 ? static_cast<int32_t>(i * 512)
                                            : type.shape[0] == 2
                                                ? static_cast<int32_t>(i * (value.name == "text" ? kTextRows : kClip))
                                            : type.shape[0] == 1 ? 1
                                                                 : static_cast<int32_t>(random.below(32));
    }
  }
}

// A graph of a few operations; the last one (or the one called `name`) is timed over buffers of its own.
struct Case {
  std::string name;
  std::function<void(Builder&)> build;
  std::string op;  // which is timed; empty: the only one
};

class Timed {
 public:
  Timed(const Case& test, ThreadPool& pool) : pool_(pool) {
    graph_.axes = {{"tokens", kTokens}};
    Builder b(graph_);
    test.build(b);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      if (test.op == graph_.ops[i].def->name) op_ = static_cast<OpId>(i);
    }
    const Operation& op = graph_.op(op_);
    for (const ValueId id : op.inputs) inputs_.push_back(id == kNone ? TensorView{} : view(id));
    for (size_t i = 0; i < op.outputs.size(); ++i) outputs_.push_back(output(op, i));
    workspace_ = std::make_unique<Buffer>(workspace_of(graph_, op_, pool.threads()));
  }

  void run() {
    const Operation& op = graph_.op(op_);
    op.def->cpu({.inputs = inputs_,
                 .outputs = outputs_,
                 .workspace = workspace_->data(),
                 .attributes = op.attributes,
                 .threads = &pool_});
  }
  [[nodiscard]] Cost cost() const { return cost_of(graph_, op_); }

 private:
  TensorView view(ValueId id) {
    const ValueType& type = graph_.value(id).type;
    buffers_.push_back(std::make_unique<Buffer>(type.bytes()));
    fill(graph_.value(id), buffers_.back()->data(), static_cast<uint64_t>(id));
    return {buffers_.back()->data(), type.dtype, type.shape};
  }
  TensorView output(const Operation& op, size_t which) {
    for (const InPlace& rule : op.def->in_place) {
      const auto input = static_cast<size_t>(rule.input);
      if (static_cast<size_t>(rule.output) != which || input >= inputs_.size() || !inputs_[input].data) continue;
      const ValueType& type = graph_.value(op.outputs[which]).type;
      const bool taken = std::any_of(outputs_.begin(), outputs_.end(),
                                     [&](const TensorView& other) { return other.data == inputs_[input].data; });
      if (!taken && type.bytes() == inputs_[input].bytes()) return {inputs_[input].data, type.dtype, type.shape};
    }
    return view(op.outputs[which]);
  }

  Graph graph_;
  OpId op_ = 0;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<TensorView> inputs_, outputs_;
  std::unique_ptr<Buffer> workspace_;
};

// Four sequences of 512 tokens, 9 heads on 3, as SmolLM2-135M has them.
void attend(Builder& b, DType dtype) {
  constexpr int64_t kStream = 2048;
  const ValueType wide{dtype, {kStream, 9 * kHeadSize}, kTokenAxis},
      narrow{dtype, {kStream, 3 * kHeadSize}, kTokenAxis};
  const ValueId q = b.input("q", wide, ValueKind::kTrainableWeight);
  const ValueId k = b.input("k", narrow, ValueKind::kTrainableWeight);
  const ValueId v = b.input("v", narrow, ValueKind::kTrainableWeight);
  const ValueId offsets = b.input("offsets", {DType::kI32, {5}}, ValueKind::kBatch);
  const ValueId o = ops::attention(b, q, k, v, offsets, {9, 3, kHeadSize, 0, 0.125});
  const ValueId head = b.input("head", {dtype, {32, 9 * kHeadSize}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {kStream}, kTokenAxis}, ValueKind::kBatch);
  const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId loss = ops::linear_cross_entropy(b, o, head, labels, scale, ops::LossGradients::kInput).loss;
  std::vector<WeightGradient> gradients = {{.weight = q, .dtype = dtype}};
  append_backward(b, loss, gradients, ops::add);
}

// One sequence of 8,192 tokens, four heads of 128: causal, as a language model has it, without a mask, as a video model
// has it, or over the 512 rows of a text.
enum class Sees : uint8_t { kEarlier, kAll, kText };
void attend_in_video(Builder& b, DType dtype, Sees sees) {
  constexpr int64_t kHeads = 4, kSize = 128;
  const ValueType type{dtype, {kClip, kHeads * kSize}, kTokenAxis}, text{dtype, {kTextRows, kHeads * kSize}};
  const ValueId q = b.input("q", type, ValueKind::kTrainableWeight);
  const ValueId k = b.input("k", sees == Sees::kText ? text : type, ValueKind::kTrainableWeight);
  const ValueId v = b.input("v", sees == Sees::kText ? text : type, ValueKind::kTrainableWeight);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  const ops::AttentionOptions options{
      .heads = kHeads, .kv_heads = kHeads, .head_size = kSize, .scale = 0.088, .causal = sees == Sees::kEarlier};
  const ValueId o =
      sees == Sees::kText
          ? ops::cross_attention(b, q, k, v, offsets, b.input("text", {DType::kI32, {2}}, ValueKind::kBatch), options)
          : ops::attention(b, q, k, v, offsets, options);
  const ValueId head = b.input("head", {dtype, {32, kHeads * kSize}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {kClip}, kTokenAxis}, ValueKind::kBatch);
  const ValueId scale = b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId loss = ops::linear_cross_entropy(b, o, head, labels, scale, ops::LossGradients::kInput).loss;
  std::vector<WeightGradient> gradients = {{.weight = q, .dtype = dtype}};
  append_backward(b, loss, gradients, ops::add);
}

// 1024 rows, all with labels, and the head of SmolLM2-135M.
void end_with_loss(Builder& b, DType dtype, ops::LossGradients gradients) {
  constexpr int64_t kStream = 1024, kHidden = 576, kVocabulary = 49152;
  const ValueId x = b.input("x", {dtype, {kStream, kHidden}, kTokenAxis}, ValueKind::kBatch);
  const ValueId w = b.input("w", {dtype, {kVocabulary, kHidden}}, ValueKind::kFrozenWeight);
  const ValueId labels = b.input("labels", {DType::kI32, {kStream}, kTokenAxis}, ValueKind::kBatch);
  (void)ops::linear_cross_entropy(b, x, w, labels, b.input("scale", {DType::kF32, {1}}, ValueKind::kBatch), gradients);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const ValueType rows{dtype, {kTokens, kWidth}, kTokenAxis}, weight{dtype, {kWidth}};
    const ValueType numbers{DType::kI32, {kTokens}, kTokenAxis}, scalar{DType::kF32, {1}};
    const std::string suffix = fmt::format(" {}", name_of(dtype));
    // Appends the operation and a backward pass of it, so that its gradient can be timed, too.
    const auto with_gradient = [=](std::function<ValueId(Builder&, ValueId x, ValueId y, ValueId w)> forward) {
      return [=](Builder& b) {
        const ValueId x = b.input("x", rows, ValueKind::kTrainableWeight);
        const ValueId y = b.input("y", rows, ValueKind::kTrainableWeight);
        const ValueId w = b.input("w", weight, ValueKind::kTrainableWeight);
        const ValueId out = forward(b, x, y, w);
        const ValueId head = b.input("head", {dtype, {32, kWidth}}, ValueKind::kFrozenWeight);
        const ValueId labels = b.input("labels", numbers, ValueKind::kBatch);
        const ValueId scale = b.input("scale", scalar, ValueKind::kBatch);
        const ValueId loss = ops::linear_cross_entropy(b, out, head, labels, scale, ops::LossGradients::kInput).loss;
        std::vector<WeightGradient> gradients = {{.weight = x, .dtype = dtype}};
        if (b.graph().ops[0].inputs.size() > 1 && b.graph().ops[0].inputs[1] == w) gradients.push_back({.weight = w});
        append_backward(b, loss, gradients, ops::add);
      };
    };
    const auto norm =
        with_gradient([](Builder& b, ValueId x, ValueId, ValueId w) { return ops::rms_norm(b, x, w, 1e-5); });
    const auto gated = with_gradient([](Builder& b, ValueId x, ValueId y, ValueId) { return ops::swiglu(b, x, y); });
    const auto rows_summed = [=](Builder& b) {
      (void)ops::sum_rows(b, b.input("x", rows, ValueKind::kBatch), kNone, DType::kF32);
    };
    const auto turned = with_gradient([=](Builder& b, ValueId x, ValueId, ValueId) {
      const ValueId positions = b.input("positions", numbers, ValueKind::kBatch);
      const ValueId inv_freq = b.input("inv_freq", {DType::kF32, {kHeadSize / 2}}, ValueKind::kBatch);
      return ops::rope(b, x, positions, inv_freq, {.head_size = kHeadSize});
    });
    const auto dropped = with_gradient([=](Builder& b, ValueId x, ValueId, ValueId) {
      return ops::dropout(b, x, b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch), 0.1, 0);
    });
    const auto summed = with_gradient([](Builder& b, ValueId x, ValueId y, ValueId) { return ops::add(b, x, y); });
    const auto looked_up = [=](Builder& b) {
      const ValueId ids = b.input("ids", numbers, ValueKind::kBatch);
      (void)ops::embedding(b, ids, b.input("table", {dtype, {32, kWidth}}, ValueKind::kFrozenWeight));
    };
    const auto squared = [=](Builder& b) {
      (void)ops::squared_norm(b, b.input("g", {dtype, {kParameters}}, ValueKind::kGradient));
    };
    for (const auto& [op, build] :
         std::initializer_list<std::pair<const char*, std::function<void(Builder&)>>>{{"add", summed},
                                                                                      {"rms_norm", norm},
                                                                                      {"rms_norm_grad", norm},
                                                                                      {"swiglu", gated},
                                                                                      {"swiglu_grad", gated},
                                                                                      {"rope", turned},
                                                                                      {"sum_rows", rows_summed},
                                                                                      {"dropout", dropped},
                                                                                      {"embedding", looked_up},
                                                                                      {"squared_norm", squared}}) {
      cases.push_back({op + suffix, build, op});
    }
    for (const ops::OptimizerDef* optimizer : ops::all_optimizers()) {
      const auto update = [=](Builder& b) {
        const Shape shape = {kParameters};
        const ops::OptimizerOptions options = ops::options_of(*optimizer, {{"momentum", 0.9}});
        const ValueId w = b.input("w", {dtype, shape}, ValueKind::kTrainableWeight);
        ops::UpdateOperands o{.weight = w};
        const auto state = [&](const ops::StateSpec& spec) {
          return b.input(spec.name, ops::type_of(spec, {0, kParameters}, shape), ValueKind::kOptimizerState);
        };
        if (dtype == DType::kBF16) o.master = state({.name = "master"});
        for (const ops::StateSpec& spec : optimizer->states(options, {shape}).values) o.states.push_back(state(spec));
        o.gradient = b.input("g", {DType::kF32, shape}, ValueKind::kGradient);
        o.learning_rate = b.input("rate", scalar, ValueKind::kBatch);
        o.step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
        if (const ops::StepState* kept = optimizer->step_state) {
          const ValueId before = b.input("kept", {DType::kF32, {kept->elems}}, ValueKind::kOptimizerState);
          o.step_state = kept->next(b, before, o.learning_rate, o.step, options);
        }
        (void)optimizer->update(b, o, options);
      };
      const std::string name(optimizer->name);
      cases.push_back({name + suffix, update, optimizer->step_state ? name : ""});
    }
  }
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const char* op : {"attention", "attention_grad"}) {
      cases.push_back({fmt::format("{} {}", op, name_of(dtype)), [=](Builder& b) { attend(b, dtype); }, op});
    }
  }
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const char* op : {"attention", "attention_grad"}) {
      for (const auto& [what, sees] :
           {std::pair("8192 causal", Sees::kEarlier), std::pair("8192", Sees::kAll), std::pair("text", Sees::kText)}) {
        const auto build = [=, s = sees](Builder& b) { attend_in_video(b, dtype, s); };
        cases.push_back({fmt::format("{} {} {}", op, what, name_of(dtype)), build, op});
      }
    }
  }
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const auto& [what, gradients] :
         {std::pair("loss", ops::LossGradients::kNone), std::pair("loss, dx", ops::LossGradients::kInput),
          std::pair("loss, dx, dw", ops::LossGradients::kInputAndWeight)}) {
      const auto build = [=, g = gradients](Builder& b) { end_with_loss(b, dtype, g); };
      cases.push_back({fmt::format("{} {}", what, name_of(dtype)), build, "linear_cross_entropy"});
    }
  }
  cases.push_back({"cast f32 to bf16",
                   [](Builder& b) {
                     (void)ops::cast(b, b.input("x", {DType::kF32, {kParameters}}, ValueKind::kBatch), DType::kBF16);
                   },
                   "cast"});
  cases.push_back({"zero f32",
                   [](Builder& b) {
                     (void)ops::zero(b, b.input("x", {DType::kF32, {kParameters}}, ValueKind::kGradient));
                   },
                   "zero"});
  return cases;
}

// A lone thread is clocked by its CPU time, so that other work on the machine hardly counts.
double seconds_of(const std::function<void()>& run, int threads) {
  const auto now = [threads] {
    timespec time{};
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  run();
  return now() - begin;
}

struct Times {
  std::vector<double> seconds;
  [[nodiscard]] double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  [[nodiscard]] double median() {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

// a[i] = b[i] + s * c[i] over arrays of the optimizer's size; 12 bytes per element.
class Triad {
 public:
  explicit Triad(ThreadPool& pool) : pool_(pool) {}
  void run() {
    float *a = a_.data(), *b = b_.data(), *c = c_.data();
    pool_.parallel_for(kParameters, 1 << 16, [=](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 0.5f * c[i];
    });
  }
  static constexpr double kBytes = 12.0 * kParameters;

 private:
  ThreadPool& pool_;
  std::vector<float> a_ = std::vector<float>(kParameters, 1), b_ = a_, c_ = a_;
};

}  // namespace

int main(int argc, char** argv) {
  int threads = available_cpus(), rounds = 7;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads")) threads = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--rounds")) rounds = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--only")) only = argv[i + 1];
    if (!std::strcmp(argv[i], "--isa")) cpu::limit_isa(argv[i + 1]);
  }
  ThreadPool pool(threads);
  Triad triad(pool);
  fmt::print("{} threads, {} rounds\n{:24} {:>9} {:>9} {:>9} {:>9} {:>9}\n", threads, rounds, "operation", "best ms",
             "median", "GB/s", "of triad", "GFLOP/s");
  for (const Case& test : all_cases()) {
    if (test.name.find(only) == std::string::npos) continue;
    Timed timed(test, pool);
    timed.run();
    Times times, triads;
    for (int round = 0; round < rounds; ++round) {
      times.seconds.push_back(seconds_of([&] { timed.run(); }, threads));
      triads.seconds.push_back(seconds_of([&] { triad.run(); }, threads));
    }
    const Cost cost = timed.cost();
    const double rate = cost.bytes / times.best(), triad_rate = Triad::kBytes / triads.best();
    fmt::print("{:24} {:9.2f} {:9.2f} {:9.1f} {:8.0f}% {:9.1f}\n", test.name, 1e3 * times.best(), 1e3 * times.median(),
               1e-9 * rate, 100 * rate / triad_rate, 1e-9 * cost.flops / times.best());
  }
  return 0;
}
