#include "runtime/measure_operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/arena.h"
#include "backend/device.h"
#include "backend/host_memory.h"
#include "backend/kernel.h"
#include "base/clock.h"
#include "base/index.h"
#include "base/log.h"
#include "base/math.h"
#include "base/parallel.h"
#include "graph/operation.h"
#include "plan/cost_model.h"
#include "plan/signature.h"
#include "runtime/cpu_share.h"
#include "runtime/small_numbers.h"
#include "runtime/stream_size.h"

namespace spillway {
namespace {

constexpr int64_t kAlignment = 4096;
constexpr int kMaxRounds = 15;
// Operands wander through this much memory or more from operation to operation: more than the caches hold.
constexpr int64_t kRingBytes = 64 * kMiB;
// An operation that takes longer than this works on fewer rows. Rates may promise too much for an operation, so it
// first works on as many as it needs this share of the time for, by the rates.
constexpr double kLongSeconds = 0.15, kTrialShare = 1.0 / 32;
// Two events around less than this would measure the launch more than the kernel: a device of its own time gets several
// launches between them.
constexpr double kShortSeconds = 200e-6;
constexpr int kMaxLaunches = 1024;

// One signature's operation, set up to be run.
struct Sample {
  OpId op = kNone;
  std::string signature;
  int64_t tokens = 0;                 // that the stream holds
  int64_t rows = -1;                  // of all operands, for operations without tokens that are cut; -1: they are whole
  int launches = 1;                   // between two looks at the clock
  double scale = 1;                   // from the measured time to that of the whole operation
  std::vector<int32_t> places_taken;  // by output: the input whose place it takes, or kNone
  std::vector<TensorView> inputs, outputs;
  int64_t constant_bytes = 0, result_bytes = 0, workspace_bytes = 0;
  std::vector<double> compute_seconds, host_seconds;
};

// Scratch memory on a device.
struct Area {
  Device::Memory memory;
  int64_t bytes = 0;

  Area(Device& device, int64_t size) : memory(device.allocate("device", size)), bytes(size) {}
  [[nodiscard]] std::byte* at(int64_t offset) const { return memory.get() + offset; }
};

// Which lane an operation is timed for.
enum class BenchLanes { kBoth, kCompute, kHost };

class OperationBench {
 public:
  // `lanes`: of a device of its own, only the compute lane; then the CPU's part is another bench.
  OperationBench(const Graph& graph, const OperationMeasureOptions& options, const Machine& machine, Device& device,
                 BenchLanes lanes)
      : graph_(graph),
        options_(options),
        device_(device),
        lanes_(lanes),
        queue_(device.make_queue()),
        begin_(device.make_event()),
        end_(device.make_event()),
        costs_(graph, machine),
        max_bytes_(options.memory_bytes / 3 / kAlignment * kAlignment),
        pool_(machine.threads) {
    std::set<std::string> seen;
    for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
      if (!graph.op(op).def->kernel(device.kind())) continue;
      if (lanes == BenchLanes::kHost && graph.section_of(op).repeats != Repeats::kStep) continue;
      std::string signature = signature_of(graph, op);
      const auto known = machine.operations.find(signature);
      if (known != machine.operations.end() && !is_worth_measuring(known->second)) continue;
      if (!seen.insert(signature).second) continue;
      Sample sample{.op = op, .signature = std::move(signature)};
      if (choose_size(sample)) samples_.push_back(std::move(sample));
    }
  }

  [[nodiscard]] int64_t size() const { return std::ssize(samples_); }

  void run() {
    int64_t constants = std::min(kRingBytes, max_bytes_), results = constants, workspace = 0;
    for (const Sample& sample : samples_) {
      constants = std::max(constants, sample.constant_bytes);
      results = std::max(results, sample.result_bytes);
      workspace = std::max(workspace, sample.workspace_bytes);
    }
    const Area constant_area(device_, constants), result_area(device_, results), workspace_area(device_, workspace);
    fill_with_numbers(constant_area);
    fill_with_numbers(result_area);
    workspace_ = workspace_area.at(0);
    place_all(constant_area, result_area);
    for (Sample& sample : samples_) cut_by_trial(sample);
    if (device_.is_asynchronous()) {
      device_.choose_algorithms(true);
      for (Sample& sample : samples_) (void)run_once(sample, pool_);
      device_.choose_algorithms(false);
      for (Sample& sample : samples_) choose_launches(sample);
    }
    const double begin = now_seconds();
    // The first round touches memory and code for the first time; alone it counts only where there is no time left.
    for (int round = 0; round <= kMaxRounds; ++round) {
      for (Sample& sample : samples_) {
        measure(sample);
        if (!device_.is_asynchronous()) cpu_share_.sample_at_intervals();
        if (round == 0 && options_.on_progress) options_.on_progress(&sample - samples_.data() + 1, size());
      }
      if (now_seconds() - begin > options_.seconds) break;
      if (round == 0) forget();
    }
    if (!device_.is_asynchronous()) cpu_share_.complete();
  }

  void add_to(Machine& machine) const {
    for (const Sample& sample : samples_) {
      Machine::OperationSeconds& seconds = machine.operations[sample.signature];
      if (lanes_ != BenchLanes::kHost) seconds.compute = sample.scale * undisturbed(sample.compute_seconds);
      if (lanes_ != BenchLanes::kCompute) seconds.host = sample.scale * undisturbed(sample.host_seconds);
      seconds.cpu_share = cpu_share_.value();
    }
  }

  // Says that the machine is busy where that leaves some of the operations provisional.
  void say_if_busy() const {
    const bool is_now = cpu_share_.is_busy() && !samples_.empty();
    if (is_now || keeps_provisional_) say_busy("the operations of this job", cpu_share_.value());
  }

 private:
  [[nodiscard]] const Operation& operation(const Sample& sample) const { return graph_.op(sample.op); }

  [[nodiscard]] bool is_worth_measuring(const Machine::OperationSeconds& known) {
    if (!known.is_provisional()) return false;
    cpu_share_.complete();
    const bool is_worth_it = is_worth_measuring_again(known.cpu_share, cpu_share_.value());
    keeps_provisional_ = keeps_provisional_ || !is_worth_it;
    return is_worth_it;
  }

  // Visits every operand that is there: visit(value, is_output, index).
  template <typename Visit>
  void visit_operands(const Sample& sample, const Visit& visit) const {
    const Operation& op = operation(sample);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != kNone) visit(op.inputs[i], false, i);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) visit(op.outputs[i], true, i);
  }

  [[nodiscard]] Shape shape_of(const Sample& sample, ValueId id) const {
    const ValueType& type = graph_.value(id).type;
    Shape shape = type.shape;
    if (type.axis == kTokenAxis) shape.set(0, sample.tokens);
    if (sample.rows >= 0 && shape.elems() > 1) shape.set(0, sample.rows);
    return shape;
  }
  [[nodiscard]] int64_t bytes_of(const Sample& sample, ValueId id) const {
    return align_up(shape_of(sample, id).elems() * size_of(graph_.value(id).type.dtype), kAlignment);
  }

  // Outputs take the places of inputs, as plans let them wherever nobody reads those inputs afterwards.
  [[nodiscard]] std::vector<int32_t> places_taken(const Operation& op) const {
    std::vector<int32_t> places(op.outputs.size(), kNone);
    std::vector<bool> is_taken(op.inputs.size());
    for (const InPlace& pair : op.def->in_place) {
      const auto output = static_cast<size_t>(pair.output), input = static_cast<size_t>(pair.input);
      if (output >= op.outputs.size() || input >= op.inputs.size() || op.inputs[input] == kNone) continue;
      if (places[output] != kNone || is_taken[input]) continue;
      if (std::count(op.inputs.begin(), op.inputs.end(), op.inputs[input]) != 1) continue;
      if (graph_.value(op.inputs[input]).type != graph_.value(op.outputs[output]).type) continue;
      places[output] = pair.input;
      is_taken[input] = true;
    }
    return places;
  }

  // Whether every operand but single numbers has one shape, so that a part of the rows costs a part of the time.
  [[nodiscard]] bool is_elementwise(const Sample& sample) const {
    const Shape* common = nullptr;
    bool equal = true;
    visit_operands(sample, [&](ValueId id, bool, size_t) {
      const ValueType& type = graph_.value(id).type;
      if (type.shape.elems() == 1) return;
      equal = equal && !type.follows_axis() && (common == nullptr || *common == type.shape);
      common = &type.shape;
    });
    return equal && common != nullptr;
  }

  // What takes an input's place is counted as a result alone.
  void count_bytes(Sample& sample) const {
    sample.constant_bytes = sample.result_bytes = 0;
    visit_operands(sample, [&](ValueId id, bool is_output, size_t i) {
      sample.*(is_output ? &Sample::result_bytes : &Sample::constant_bytes) += bytes_of(sample, id);
      if (!is_output) return;
      if (sample.places_taken[i] != kNone) sample.constant_bytes -= bytes_of(sample, id);
    });
  }

  // As many rows as time and memory allow. False: it cannot be measured.
  [[nodiscard]] bool choose_size(Sample& sample) const {
    sample.workspace_bytes = workspace_of(graph_, sample.op, pool_.threads(), device_.kind());
    sample.tokens = graph_.tokens();
    sample.places_taken = places_taken(operation(sample));
    const auto needed = [&] {
      count_bytes(sample);
      return sample.constant_bytes + sample.result_bytes + sample.workspace_bytes;
    };
    constexpr double kSlack = 0.95;  // for what rounding sizes up to whole pages adds
    const double seconds = costs_.operation_seconds(sample.op);
    if (has_tokens(sample)) {
      const auto is_too_large = [&] { return sample.scale * kLongSeconds < seconds || needed() > max_bytes_; };
      while (is_too_large() && cut(sample)) {
      }
    } else if (is_elementwise(sample)) {
      const double share = std::min(
          {1.0, kLongSeconds / seconds, kSlack * static_cast<double>(max_bytes_) / static_cast<double>(needed())});
      if (share == 1) return true;
      const int64_t all = largest_rows(sample);
      sample.rows = std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(all)));
      sample.scale = static_cast<double>(all) / static_cast<double>(sample.rows);
    }
    return needed() <= max_bytes_;
  }

  [[nodiscard]] bool has_tokens(const Sample& sample) const {
    bool result = false;
    visit_operands(sample, [&](ValueId id, bool, size_t) { result |= graph_.value(id).type.axis == kTokenAxis; });
    return result;
  }

  // False: there are few already.
  [[nodiscard]] bool cut(Sample& sample) const {
    const int64_t fewer = smaller_stream(sample.tokens, std::min(options_.sequence_len, graph_.tokens()));
    if (fewer == sample.tokens) return false;
    sample.tokens = fewer;
    sample.scale = 1 / work_share(graph_, sample.op, fewer);
    return true;
  }

  // Where it takes longer than the rates say: what it takes with few rows says how many it may have. Of a device with
  // queues the launches would be measured.
  void cut_by_trial(Sample& sample) {
    if (device_.is_asynchronous() || !has_tokens(sample)) return;
    const double seconds = costs_.operation_seconds(sample.op) / sample.scale;
    Sample trial = sample;
    while (trial.scale * kTrialShare * kLongSeconds < seconds * sample.scale && cut(trial)) {
    }
    if (trial.tokens == sample.tokens) return;
    cut_views(trial);
    const double whole_seconds = trial.scale * run_once(trial, pool_);
    while (whole_seconds > sample.scale * kLongSeconds && cut(sample)) {
    }
    cut_views(sample);
  }

  // To the sample's tokens, at the same places.
  void cut_views(Sample& sample) {
    const Operation& op = operation(sample);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNone) continue;
      const bool is_batch = graph_.value(op.inputs[i]).kind == ValueKind::kBatch;
      TensorView& view = sample.inputs[i];
      view = is_batch ? batch_view(sample, op.inputs[i])
                      : TensorView{view.data, view.dtype, shape_of(sample, op.inputs[i])};
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) sample.outputs[i].shape = shape_of(sample, op.outputs[i]);
  }

  [[nodiscard]] int64_t largest_rows(const Sample& sample) const {
    int64_t rows = 1;
    visit_operands(sample, [&](ValueId id, bool, size_t) {
      const Shape& shape = graph_.value(id).type.shape;
      if (shape.rank() > 0) rows = std::max(rows, shape[0]);
    });
    return rows;
  }

  void fill_with_numbers(const Area& area) {
    if (device_.shares_host_memory()) return fill_with_small_numbers(area.at(0), area.bytes, pool_);
    const Arena piece("host", std::min<int64_t>(area.bytes, 64 * kMiB));
    fill_with_small_numbers(piece.at(0), piece.bytes(), pool_);
    for (int64_t offset = 0; offset < area.bytes; offset += piece.bytes())
      queue_->copy(area.at(offset), piece.at(0), std::min(piece.bytes(), area.bytes - offset));
    queue_->finish();
  }

  // Each operation's operands follow those of the operation before, round and round through the arenas. What kernels
  // write stays apart from what they only read, so that no number grows from round to round.
  void place_all(const Area& constants, const Area& results) {
    int64_t constant_top = 0, result_top = 0;
    const auto wrap = [](int64_t& top, int64_t bytes, const Area& area) {
      if (top + bytes > area.bytes) top = 0;
    };
    for (Sample& sample : samples_) {
      wrap(constant_top, sample.constant_bytes, constants);
      wrap(result_top, sample.result_bytes, results);
      const auto take = [&](ValueId id, const Area& area, int64_t& top) {
        const TensorView view{area.at(top), graph_.value(id).type.dtype, shape_of(sample, id)};
        top += bytes_of(sample, id);
        return view;
      };
      const Operation& op = operation(sample);
      sample.inputs.resize(op.inputs.size());
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        sample.outputs.push_back(take(op.outputs[i], results, result_top));
        if (const int32_t input = sample.places_taken[i]; input != kNone)
          nth(sample.inputs, input) = sample.outputs.back();
      }
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId id = op.inputs[i];
        if (id == kNone || sample.inputs[i].data != nullptr) continue;
        const bool is_batch = graph_.value(id).kind == ValueKind::kBatch;
        sample.inputs[i] = is_batch ? batch_view(sample, id) : take(id, constants, constant_top);
      }
    }
  }

  TensorView batch_view(const Sample& sample, ValueId id) {
    TensorView view{nullptr, graph_.value(id).type.dtype, shape_of(sample, id)};
    const auto [at, fresh] = batch_.try_emplace({id, sample.tokens}, nullptr);
    if (fresh) {
      std::vector<std::byte> content(static_cast<size_t>(view.bytes()));
      options_.fill_batch(id, {content.data(), view.dtype, view.shape}, sample.tokens);
      at->second = device_.allocate("device", view.bytes());
      queue_->copy(at->second.get(), content.data(), view.bytes());
      queue_->finish();
    }
    view.data = at->second.get();
    return view;
  }

  void choose_launches(Sample& sample) {
    const auto is_short = [&] { return run_once(sample, pool_) * sample.launches < kShortSeconds; };
    while (sample.launches < kMaxLaunches && is_short()) sample.launches *= 2;
  }

  // The seconds of one launch.
  double run_once(const Sample& sample, ThreadPool& pool) const {
    const Operation& op = operation(sample);
    const KernelArgs args{.inputs = sample.inputs,
                          .outputs = sample.outputs,
                          .workspace = workspace_,
                          .attributes = op.attributes,
                          .threads = &pool};
    const double begin = now_seconds();
    queue_->record(*begin_);
    for (int launch = 0; launch < sample.launches; ++launch) queue_->run(op.def->kernel(device_.kind()), args);
    queue_->record(*end_);
    queue_->finish();
    const double seconds = device_.is_asynchronous() ? end_->seconds_since(*begin_) : now_seconds() - begin;
    return seconds / sample.launches;
  }

  void measure(Sample& sample) {
    if (lanes_ != BenchLanes::kHost) sample.compute_seconds.push_back(run_once(sample, pool_));
    if (lanes_ == BenchLanes::kCompute) return;
    if (graph_.section_of(sample.op).repeats == Repeats::kStep)
      sample.host_seconds.push_back(run_once(sample, host_pool_));
  }

  void forget() {
    for (Sample& sample : samples_) {
      sample.compute_seconds.clear();
      sample.host_seconds.clear();
    }
  }

  // The lower quartile: what else the computer does only ever adds time, and the fastest run may be luck.
  [[nodiscard]] static double undisturbed(std::vector<double> seconds) {
    if (seconds.empty()) return 0;
    const auto quartile = seconds.begin() + std::ssize(seconds) / 4;
    std::nth_element(seconds.begin(), quartile, seconds.end());
    return *quartile;
  }

  const Graph& graph_;
  const OperationMeasureOptions& options_;
  Device& device_;
  BenchLanes lanes_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<DeviceEvent> begin_, end_;
  CostModel costs_;
  int64_t max_bytes_;  // of one operation: constants, results and workspace are three areas, each as large as any needs
  ThreadPool pool_, host_pool_{1};
  CpuShare cpu_share_{pool_};
  bool keeps_provisional_ = false;  // some that it would measure on a machine less busy
  std::vector<Sample> samples_;
  std::map<std::pair<ValueId, int64_t>, Device::Memory> batch_;  // by value and tokens
  std::byte* workspace_ = nullptr;
};

}  // namespace

int64_t measure_operations(const Graph& graph, const OperationMeasureOptions& options, Machine& machine) {
  Device& device = options.device ? *options.device : cpu_device();
  const bool apart = device.is_asynchronous();
  const auto bounded = [&](int64_t free_bytes) {
    OperationMeasureOptions result = options;
    result.memory_bytes = std::min(options.memory_bytes, free_bytes / 4);
    return result;
  };
  const OperationMeasureOptions on_device = bounded(device.free_bytes()), on_host = bounded(available_memory_bytes());
  std::vector<std::unique_ptr<OperationBench>> benches;
  benches.push_back(std::make_unique<OperationBench>(graph, apart ? on_device : on_host, machine, device,
                                                     apart ? BenchLanes::kCompute : BenchLanes::kBoth));
  if (apart)
    benches.push_back(std::make_unique<OperationBench>(graph, on_host, machine, cpu_device(), BenchLanes::kHost));
  const int64_t count = benches.front()->size();
  if (count == 0) {
    benches.front()->say_if_busy();
    return 0;
  }
  log_info("measuring {} operations of this job, once on this computer", count);
  for (const auto& bench : benches) {
    if (bench->size() == 0) continue;
    bench->run();
    bench->add_to(machine);
    bench->say_if_busy();
  }
  for (const auto& [shape, index] : device.algorithms()) machine.algorithms[shape] = index;
  return count;
}

}  // namespace spillway
