// Tests that a step of either order of micro-batches takes what the simulator predicts, on a clock that counts what
// each instruction does.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "runtime/lane_runner.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Executes instructions in the order of the program, and keeps for each lane a clock of its own: an operation takes
// what the machine says of it, a copy what its lane takes for the bytes that it did move. A section ends with its last
// lane.
class ClockedLanes final : public LaneRunner {
 public:
  ClockedLanes(LoadedProgram& loaded, LaneProfile& profile, const Machine& machine, double& clock)
      : loaded_(loaded), profile_(profile), costs_(loaded.graph(), machine), clock_(clock) {}

  void run(const SectionRange& section) override {
    std::array<double, kLanes> lanes;
    lanes.fill(clock_);
    std::vector<double> finished(loaded_.program().instructions.size(), clock_);
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(loaded_.program().instructions, i);
      loaded_.execute(i);
      double start = nth(lanes, instruction.lane);
      for (const int32_t wait : instruction.waits) start = std::max(start, nth(finished, wait));
      const bool is_copy = instruction.kind == Instruction::Kind::kCopy;
      const double seconds = is_copy ? costs_.transfer_seconds(instruction.lane, loaded_.moved_bytes(i))
                                     : costs_.operation_seconds(instruction.op, instruction.lane);
      nth(lanes, instruction.lane) = nth(finished, i) = start + seconds;
      profile_.record(instruction.lane, i, start, start + seconds);
    }
    clock_ = *std::max_element(lanes.begin(), lanes.end());
  }

 private:
  LoadedProgram& loaded_;
  LaneProfile& profile_;
  CostModel costs_;
  double& clock_;
};

// Micro-batches that fill the streams of tiny_job().
std::vector<FlatBatch> full_micro_batches(size_t count) {
  std::vector<FlatBatch> batches;
  for (size_t i = 0; i < count; ++i) {
    nlohmann::json sequence;
    for (size_t token = 0; token < 24; ++token) {
      sequence["input_ids"].push_back((7 * i + 5 * token) % 90);
      sequence["labels"].push_back((7 * i + 5 * token) % 90);
    }
    batches.emplace_back(nlohmann::json{sequence, sequence});
  }
  return batches;
}

struct StepSeconds {
  double predicted = 0, measured = 0;
};

// The second of two steps of four micro-batches.
StepSeconds step_seconds(TinySetup setup, int64_t group, const std::string& lines, const Machine& machine) {
  constexpr size_t kStep = 4;
  setup.micro_batches = group;
  const ModeJobs jobs(setup, "qwen3", kStep);
  train::Job job = jobs.job(lines);
  job.config.batches.gradient_accumulation_steps = kStep;
  StepSeconds result;
  double clock = 0;
  std::optional<train::JobTiers> tiers;
  TinyTraining training(job, machine, [&](const train::PlannedJob& planned) {
    REQUIRE(planned.plan.fits);
    REQUIRE(planned.context.runs() == static_cast<int64_t>(kStep) / group);
    result.predicted = planned.context.step_seconds(planned.plan.simulation);
    ExecutorOptions options = tiers.emplace(job, planned).options();
    options.lanes = [&](LoadedProgram& loaded, LaneProfile& profile) {
      return std::make_unique<ClockedLanes>(loaded, profile, machine, clock);
    };
    return options;
  });
  const std::vector<FlatBatch> batches = full_micro_batches(kStep);
  for (int64_t step = 0; step < 2; ++step) {
    const double before = clock;
    (void)training.accumulate(batches, 0.01, step);
    (void)training.update();
    result.measured = clock - before;
  }
  return result;
}

// A machine whose disks, or whose copies between host and device, move so much in a second.
Machine machine_of(double host, double disk) {
  Machine machine = tiered_machine();
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost}) nth(machine.link_bytes_per_second, lane) = host;
  for (const Lane lane : {Lane::kDiskRead, Lane::kDiskWrite}) nth(machine.link_bytes_per_second, lane) = disk;
  return machine;
}

}  // namespace

TEST_CASE("a step of either order takes within 5 % of what was predicted, on a slow disk, a slow host, and both") {
  constexpr double kFast = 1e10, kSlow = 2e7;
  const TinySetup lora{.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .threads = 1},
      full{.dtype = DType::kBF16, .threads = 1};
  struct Row {
    const char* name;
    TinySetup setup;
    std::string lines;
    Machine machine;
    double speedup;  // that the largest group has at least
  };
  const Row kRows[] = {
      {"slow disk", lora, "layer_offloading: disk\ngradient_checkpointing: true\n", machine_of(kFast, kSlow), 2},
      {"slow host", lora, "layer_offloading: host\nactivation_offloading: true\n", machine_of(kSlow, kFast), 1},
      {"both", full,
       "parameter_offload: disk\noptimizer_offload: host\ngradient_offload: host\ngradient_checkpointing: true\n",
       machine_of(kSlow, kSlow), 1.5},
      {"both, with state on the disk", full,
       "parameter_offload: host\noptimizer_offload: disk\ngradient_offload: disk\nactivation_offloading: disk\n",
       machine_of(kSlow, kSlow), 1}};
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    double horizontal = 0;
    for (const int64_t group : {1, 2, 4}) {
      CAPTURE(group);
      const StepSeconds seconds = step_seconds(row.setup, group, kPlainJob + row.lines, row.machine);
      CAPTURE(seconds.predicted);
      CAPTURE(seconds.measured);
      CHECK(seconds.measured == doctest::Approx(seconds.predicted).epsilon(0.05));
      if (group == 1) horizontal = seconds.measured;
      if (group == 4) CHECK(horizontal / seconds.measured >= row.speedup);
    }
  }
}
