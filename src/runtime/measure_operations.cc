#include "runtime/measure_operations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/arena.h"
#include "backend/device.h"
#include "backend/host_memory.h"
#include "backend/kernel.h"
#include "base/clock.h"
#include "base/index.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "graph/operation.h"
#include "plan/cost_model.h"
#include "plan/signature.h"
#include "runtime/cpu_share.h"
#include "runtime/operation_sample.h"
#include "runtime/small_numbers.h"
#include "runtime/stream_size.h"

namespace spillway {
namespace {

constexpr int64_t kAlignment = 4096;
constexpr int kMaxRounds = 15;
// The memory through which operands move from operation to operation is at least this large, so that caches do not hold
// it.
constexpr int64_t kRingBytes = 64 * kMiB;
// An operation that takes longer than this works on fewer rows. Rates may promise too much for an operation, so it
// first works on the rows that should take this share of the time by the rates.
constexpr double kLongSeconds = 0.15, kTrialShare = 1.0 / 32;
// Two events around less than this would measure the launch more than the kernel: on a device with its own time several
// launches go between them.
constexpr double kShortSeconds = 200e-6;
constexpr int kMaxLaunches = 1024;

// One signature's operation, ready to run.
struct Sample {
  OperationSample size;
  const MeasuredGraph* program = nullptr;
  std::string signature;
  double expected_seconds = 0;  // of the whole operation, by the rates
  bool may_run_on_host = false;
  int launches = 1;  // between two readings of the clock
  std::vector<TensorView> inputs{}, outputs{};
  std::vector<double> compute_seconds{}, host_seconds{};

  // Returns the seconds of the whole operation, from those of this one.
  [[nodiscard]] double whole(double seconds) const { return size.scale() * seconds; }
};

// A piece of scratch memory on a device.
struct Area {
  Device::Memory memory;
  int64_t bytes = 0;

  Area(Device& device, int64_t size) : memory(device.allocate("device", size)), bytes(size) {}
  [[nodiscard]] std::byte* at(int64_t offset) const { return memory.get() + offset; }
};

// The lanes that an operation is timed for.
enum class BenchLanes { kBoth, kCompute, kHost };

class OperationBench {
 public:
  // `lanes`: for a device of its own only the compute lane; then the CPU's part is another bench.
  OperationBench(std::span<const MeasuredGraph> programs, const OperationMeasureOptions& options,
                 const Machine& machine, Device& device, BenchLanes lanes)
      : options_(options),
        seconds_(options.seconds * static_cast<double>(programs.size())),
        device_(device),
        lanes_(lanes),
        queue_(device.make_queue()),
        begin_(device.make_event()),
        end_(device.make_event()),
        max_bytes_(options.memory_bytes / 3 / kAlignment * kAlignment),
        pool_(machine.threads) {
    std::set<std::string> seen;
    for (const MeasuredGraph& program : programs) add(program, machine, seen);
  }

  [[nodiscard]] int64_t size() const { return std::ssize(samples_); }

  // Runs all rounds. Tells `on_progress` after each operation of the first one how many are done.
  void run(const std::function<void(int64_t done)>& on_progress) {
    int64_t constants = std::min(kRingBytes, max_bytes_), results = constants, workspace = 0;
    for (const Sample& sample : samples_) {
      constants = std::max(constants, sample.size.constant_bytes());
      results = std::max(results, sample.size.result_bytes());
      workspace = std::max(workspace, sample.size.workspace_bytes());
    }
    const Area constant_area(device_, constants), result_area(device_, results), workspace_area(device_, workspace);
    fill_with_numbers(constant_area);
    fill_with_numbers(result_area);
    workspace_ = workspace_area.at(0);
    place_all(constant_area, result_area);
    for (Sample& sample : samples_) cut_by_trial(sample);
    if (device_.is_asynchronous()) {
      device_.choose_algorithms(true);
      for (Sample& sample : samples_) (void)run_once(sample);
      device_.choose_algorithms(false);
      for (Sample& sample : samples_) choose_launches(sample);
    }
    const double begin = now_seconds();
    // The first round touches memory and code for the first time; it counts only if there is no time for another.
    for (int round = 0; round <= kMaxRounds; ++round) {
      for (Sample& sample : samples_) {
        measure(sample);
        if (!device_.is_asynchronous()) cpu_share_.sample_at_intervals();
        if (round == 0) on_progress(&sample - samples_.data() + 1);
      }
      if (now_seconds() - begin > seconds_) break;
      if (round == 0) forget();
    }
    if (!device_.is_asynchronous()) cpu_share_.complete();
  }

  void add_to(Machine& machine) const {
    for (const Sample& sample : samples_) {
      Machine::OperationSeconds& seconds = machine.operations[sample.signature];
      if (lanes_ != BenchLanes::kHost) seconds.compute = sample.whole(undisturbed(sample.compute_seconds));
      if (lanes_ != BenchLanes::kCompute) seconds.host = sample.whole(undisturbed(sample.host_seconds));
      seconds.cpu_share = cpu_share_.value();
    }
  }

  // Says that the machine is busy if that leaves some of the operations provisional.
  void say_if_busy() const {
    const bool is_now = cpu_share_.is_busy() && !samples_.empty();
    if (is_now || keeps_provisional_) say_busy("the operations of this job", cpu_share_.value());
  }

 private:
  // Adds the operations of the program that are not known yet and that no other program has.
  void add(const MeasuredGraph& program, const Machine& machine, std::set<std::string>& seen) {
    const Graph& graph = *program.graph;
    const CostModel costs(graph, machine);
    for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
      if (!graph.op(op).def->kernel(device_.kind())) continue;
      if (lanes_ == BenchLanes::kHost && !may_run_on_host(graph, op)) continue;
      std::string signature = signature_of(graph, op);
      const auto known = machine.operations.find(signature);
      if (known != machine.operations.end() && !is_worth_measuring(known->second)) continue;
      if (!seen.insert(signature).second) continue;
      Sample sample{.size = {graph, op, pool_.threads(), device_.kind()},
                    .program = &program,
                    .signature = std::move(signature),
                    .expected_seconds = costs.operation_seconds(op),
                    .may_run_on_host = may_run_on_host(graph, op)};
      const SampleLimits limits{.seconds = kLongSeconds, .bytes = max_bytes_, .sequence_len = options_.sequence_len};
      if (sample.size.fit(sample.expected_seconds, limits)) samples_.push_back(std::move(sample));
    }
  }

  [[nodiscard]] bool is_worth_measuring(const Machine::OperationSeconds& known) {
    if (!known.is_provisional()) return false;
    cpu_share_.complete();
    const bool is_worth_it = is_worth_measuring_again(known.cpu_share, cpu_share_.value());
    keeps_provisional_ = keeps_provisional_ || !is_worth_it;
    return is_worth_it;
  }

  // Cuts an operation that takes longer than the rates say: its time with few rows gives the number that it may have.
  // Not on a device with queues, where this would measure the launches.
  void cut_by_trial(Sample& sample) {
    if (device_.is_asynchronous() || !sample.size.has_tokens()) return;
    const auto cut = [&](Sample& one) { return one.size.cut(options_.sequence_len); };
    Sample trial = sample;
    while (trial.whole(kTrialShare * kLongSeconds) < sample.expected_seconds && cut(trial)) {
    }
    if (trial.size.tokens() == sample.size.tokens()) return;
    cut_views(trial);
    const double seconds = trial.whole(run_once(trial));
    while (seconds > sample.whole(kLongSeconds) && cut(sample)) {
    }
    cut_views(sample);
  }

  // Cuts the operands to the sample's tokens, at the same places.
  void cut_views(Sample& sample) {
    const Operation& op = sample.size.operation();
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNone) continue;
      TensorView& view = sample.inputs[i];
      view = has_content(sample, op.inputs[i]) ? content_view(sample, op.inputs[i])
                                               : TensorView{view.data, view.dtype, sample.size.shape_of(op.inputs[i])};
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) sample.outputs[i].shape = sample.size.shape_of(op.outputs[i]);
  }

  // Returns the operation that makes a value of indices; null if no other numbers will do as well.
  [[nodiscard]] static const Operation* maker_of_indices(const Sample& sample, ValueId id) {
    const Value& value = sample.size.value(id);
    if (value.producer == kNone || value.type.dtype != DType::kI32) return nullptr;
    const Operation& maker = sample.program->graph->op(value.producer);
    return maker.def->fill_indices == nullptr ? nullptr : &maker;
  }

  // Returns true if it matters which numbers a value holds.
  [[nodiscard]] static bool has_content(const Sample& sample, ValueId id) {
    return sample.size.value(id).kind == ValueKind::kBatch || maker_of_indices(sample, id) != nullptr;
  }

  static void fill_content(const Sample& sample, ValueId id, const TensorView& view) {
    const int64_t tokens = sample.size.tokens();
    const Operation* const maker = maker_of_indices(sample, id);
    if (maker == nullptr) return sample.program->fill_batch(id, view, tokens);
    const auto output = std::find(maker->outputs.begin(), maker->outputs.end(), id) - maker->outputs.begin();
    const CutTypes inputs(*sample.program->graph, maker->inputs, tokens);
    maker->def->fill_indices(inputs.list(), maker->attributes, static_cast<int>(output), view);
  }

  void fill_with_numbers(const Area& area) {
    if (device_.shares_host_memory()) return fill_with_small_numbers(area.at(0), area.bytes, pool_);
    const Arena piece("host", std::min<int64_t>(area.bytes, 64 * kMiB));
    fill_with_small_numbers(piece.at(0), piece.bytes(), pool_);
    for (int64_t offset = 0; offset < area.bytes; offset += piece.bytes())
      queue_->copy(area.at(offset), piece.at(0), std::min(piece.bytes(), area.bytes - offset));
    queue_->finish();
  }

  // Places each operation's operands behind those of the operation before, round and round through the arenas. Results
  // are kept apart from constants, so that no number grows from round to round.
  void place_all(const Area& constants, const Area& results) {
    int64_t constant_top = 0, result_top = 0;
    const auto wrap = [](int64_t& top, int64_t bytes, const Area& area) {
      if (top + bytes > area.bytes) top = 0;
    };
    for (Sample& sample : samples_) {
      const OperationSample& size = sample.size;
      wrap(constant_top, size.constant_bytes(), constants);
      wrap(result_top, size.result_bytes(), results);
      const auto take = [&](ValueId id, const Area& area, int64_t& top) {
        const TensorView view{area.at(top), size.value(id).type.dtype, size.shape_of(id)};
        top += size.bytes_of(id);
        return view;
      };
      const Operation& op = size.operation();
      sample.inputs.resize(op.inputs.size());
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        sample.outputs.push_back(take(op.outputs[i], results, result_top));
        if (const int32_t input = size.places_taken()[i]; input != kNone)
          nth(sample.inputs, input) = sample.outputs.back();
      }
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId id = op.inputs[i];
        if (id == kNone || sample.inputs[i].data != nullptr) continue;
        sample.inputs[i] = has_content(sample, id) ? content_view(sample, id) : take(id, constants, constant_top);
      }
    }
  }

  TensorView content_view(const Sample& sample, ValueId id) {
    const int64_t tokens = sample.size.tokens();
    TensorView view{nullptr, sample.size.value(id).type.dtype, sample.size.shape_of(id)};
    const auto [at, fresh] = contents_.try_emplace({sample.program, id, tokens}, nullptr);
    if (fresh) {
      auto content = make_vector<std::byte>(view.bytes());
      fill_content(sample, id, {content.data(), view.dtype, view.shape});
      at->second = device_.allocate("device", view.bytes());
      queue_->copy(at->second.get(), content.data(), view.bytes());
      queue_->finish();
    }
    view.data = at->second.get();
    return view;
  }

  void choose_launches(Sample& sample) {
    const auto is_short = [&] { return run_once(sample) * sample.launches < kShortSeconds; };
    while (sample.launches < kMaxLaunches && is_short()) sample.launches *= 2;
  }

  // Returns the seconds of one launch.
  double run_once(const Sample& sample) {
    const Operation& op = sample.size.operation();
    const KernelArgs args{.inputs = sample.inputs,
                          .outputs = sample.outputs,
                          .workspace = workspace_,
                          .attributes = op.attributes,
                          .threads = &pool_};
    const double begin = now_seconds();
    queue_->record(*begin_);
    for (int launch = 0; launch < sample.launches; ++launch) queue_->run(op.def->kernel(device_.kind()), args);
    queue_->record(*end_);
    queue_->finish();
    const double seconds = device_.is_asynchronous() ? end_->seconds_since(*begin_) : now_seconds() - begin;
    return seconds / sample.launches;
  }

  void measure(Sample& sample) {
    const double seconds = run_once(sample);
    if (lanes_ != BenchLanes::kHost) sample.compute_seconds.push_back(seconds);
    if (lanes_ != BenchLanes::kCompute && sample.may_run_on_host) sample.host_seconds.push_back(seconds);
  }

  void forget() {
    for (Sample& sample : samples_) {
      sample.compute_seconds.clear();
      sample.host_seconds.clear();
    }
  }

  // Returns the lower quartile: other work of the computer only ever adds time, and the fastest run may be luck.
  [[nodiscard]] static double undisturbed(std::vector<double> seconds) {
    if (seconds.empty()) return 0;
    const auto quartile = seconds.begin() + std::ssize(seconds) / 4;
    std::nth_element(seconds.begin(), quartile, seconds.end());
    return *quartile;
  }

  const OperationMeasureOptions& options_;
  double seconds_;  // the time that measuring may take
  Device& device_;
  BenchLanes lanes_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<DeviceEvent> begin_, end_;
  int64_t max_bytes_;  // of one operation: constants, results and workspace are three areas, each as large as any needs
  ThreadPool pool_;
  CpuShare cpu_share_{pool_};
  bool keeps_provisional_ = false;  // whether some operations stay provisional that it would measure on a less busy
                                    // machine
  std::vector<Sample> samples_;
  // The values whose content matters by graph, value and tokens.
  std::map<std::tuple<const MeasuredGraph*, ValueId, int64_t>, Device::Memory> contents_;
  std::byte* workspace_ = nullptr;
};

}  // namespace

int64_t measure_operations(std::span<const MeasuredGraph> programs, const OperationMeasureOptions& options,
                           Machine& machine) {
  Device& device = options.device ? *options.device : cpu_device();
  const bool apart = device.is_asynchronous();
  const auto bounded = [&](int64_t free_bytes) {
    OperationMeasureOptions result = options;
    result.memory_bytes = std::min(options.memory_bytes, free_bytes / 4);
    return result;
  };
  const OperationMeasureOptions on_device = bounded(device.free_bytes()), on_host = bounded(available_memory_bytes());
  std::vector<std::unique_ptr<OperationBench>> benches;
  benches.push_back(std::make_unique<OperationBench>(programs, apart ? on_device : on_host, machine, device,
                                                     apart ? BenchLanes::kCompute : BenchLanes::kBoth));
  if (apart)
    benches.push_back(std::make_unique<OperationBench>(programs, on_host, machine, cpu_device(), BenchLanes::kHost));
  const int64_t count = benches.front()->size();
  if (count == 0) {
    benches.front()->say_if_busy();
    return 0;
  }
  log_info("measuring {} operations of this job, once on this computer", count);
  int64_t before = 0, all = 0;
  for (const auto& bench : benches) all += bench->size();
  for (const auto& bench : benches) {
    if (bench->size() == 0) continue;
    bench->run([&](int64_t done) {
      if (options.on_progress) options.on_progress(before + done, all);
    });
    before += bench->size();
    bench->add_to(machine);
    bench->say_if_busy();
  }
  for (const auto& [shape, index] : device.algorithms()) machine.algorithms[shape] = index;
  return count;
}

}  // namespace spillway
