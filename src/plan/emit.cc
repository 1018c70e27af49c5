#include "plan/emit.h"

#include <algorithm>
#include <map>

#include "base/math.h"

namespace spillway {
namespace {

using Clock = std::array<int32_t, kLanes>;  // by lane: an instruction, or kNone
constexpr Clock kNobody = {kNone, kNone, kNone, kNone, kNone, kNone, kNone};

void raise(Clock& clock, const Clock& other) {
  for (size_t lane = 0; lane < kLanes; ++lane) clock[lane] = std::max(clock[lane], other[lane]);
}

// Who touched which bytes of an arena last, by lane. A later instruction of a lane implies all earlier ones.
class LastAccesses {
 public:
  void clear() { segments_.clear(); }

  // Raises `needed` by whoever must have finished before instruction `i` of `lane` may read (or write) these bytes, and
  // notes the access.
  void access(int64_t offset, int64_t bytes, bool writes, Lane lane, int32_t i, Clock& needed) {
    if (bytes == 0) return;
    const int64_t end = offset + bytes;
    split(offset);
    split(end);
    auto at = segments_.lower_bound(offset);
    for (int64_t next = offset; next < end;) {
      if (at == segments_.end() || at->first > next) {
        const int64_t stop = at == segments_.end() ? end : std::min(end, at->first);
        at = segments_.emplace_hint(at, next, Segment{stop, kNobody, kNobody});
      }
      Segment& segment = at->second;
      raise(needed, segment.writers);
      if (writes) {
        raise(needed, segment.readers);
        segment.readers = segment.writers = kNobody;
        segment.writers[static_cast<size_t>(lane)] = i;
      } else {
        segment.readers[static_cast<size_t>(lane)] = i;
      }
      next = segment.end;
      ++at;
    }
  }

 private:
  struct Segment {
    int64_t end = 0;
    Clock readers, writers;
  };

  void split(int64_t offset) {
    auto at = segments_.upper_bound(offset);
    if (at == segments_.begin()) return;
    --at;
    if (at->first == offset || at->second.end <= offset) return;
    Segment tail = at->second;
    at->second.end = offset;
    segments_.emplace(offset, tail);
  }

  std::map<int64_t, Segment> segments_;  // by first byte
};

// Adds the waits that the bytes which instructions share require, and none that another implies.
class WaitFinder {
 public:
  explicit WaitFinder(Program& program) : program_(program), finished_(program.instructions.size(), kNobody) {}

  void run() {
    for (const Section& section : program_.sections) {
      for (LastAccesses& tier : tiers_) tier.clear();
      known_.fill(kNobody);
      for (int32_t i = section.begin; i < section.end; ++i) add_waits(i);
    }
  }

 private:
  void add_waits(int32_t i) {
    Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
    Clock needed = kNobody;
    const bool padded = meets_disk(instruction);
    // The last block is read to its end, too: what is there does not matter, but checksums want it to stay.
    const auto access = [&](const Place& place, bool writes) {
      const int64_t bytes = padded ? align_up(place.bytes, kDiskAlignment) : place.bytes;
      tiers_[static_cast<size_t>(place.tier)].access(place.offset, bytes, writes, instruction.lane, i, needed);
    };
    for (const Operand& input : instruction.inputs) {
      if (input.value != kNone) access(input.place, false);
    }
    access(instruction.workspace, true);
    for (const Operand& output : instruction.outputs) access(output.place, true);

    const auto own = static_cast<size_t>(instruction.lane);
    Clock& known = known_[own];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int32_t other = needed[lane];
      if (lane == own || other == kNone || other <= known[lane]) continue;
      instruction.waits.push_back(other);
    }
    std::erase_if(instruction.waits, [&](int32_t wait) { return is_implied(instruction, wait); });
    for (const int32_t wait : instruction.waits) raise(known, finished_[static_cast<size_t>(wait)]);
    known[own] = i;
    finished_[static_cast<size_t>(i)] = known;
  }

  // Whether another wait of the instruction has seen this one finish.
  [[nodiscard]] bool is_implied(const Instruction& instruction, int32_t wait) const {
    const auto lane = static_cast<size_t>(program_.instructions[static_cast<size_t>(wait)].lane);
    return std::any_of(instruction.waits.begin(), instruction.waits.end(), [&](int32_t other) {
      return other != wait && finished_[static_cast<size_t>(other)][lane] >= wait;
    });
  }

  Program& program_;
  std::array<LastAccesses, kTiers> tiers_;
  std::array<Clock, kLanes> known_{};  // by lane: what has finished when its next instruction starts
  std::vector<Clock> finished_;        // by instruction: what has finished when it has
};

class Emitter {
 public:
  Emitter(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets)
      : graph_(graph), schedule_(schedule), offsets_(offsets) {}

  [[nodiscard]] Place place(BufferId id) const {
    const Buffer& b = schedule_.buffers[static_cast<size_t>(id)];
    return {b.tier, offsets_[static_cast<size_t>(id)], b.bytes};
  }

  [[nodiscard]] Instruction instruction(const Step& step) const {
    if (step.op == kNone) {
      return {.kind = Instruction::Kind::kCopy,
              .lane = step.lane,
              .inputs = {{step.moved, place(step.inputs[0])}},
              .outputs = {{step.moved, place(step.outputs[0])}}};
    }
    const Operation& op = graph_.op(step.op);
    Instruction result{.lane = step.lane,
                       .op = step.op,
                       .recompute = step.recompute,
                       .inputs = operands(op.inputs, step.inputs),
                       .outputs = operands(op.outputs, step.outputs)};
    if (step.workspace != kNone) result.workspace = place(step.workspace);
    return result;
  }

 private:
  [[nodiscard]] std::vector<Operand> operands(const std::vector<ValueId>& values,
                                              const std::vector<BufferId>& buffers) const {
    std::vector<Operand> result;
    for (size_t i = 0; i < values.size(); ++i)
      result.push_back(values[i] == kNone ? Operand{} : Operand{values[i], place(buffers[i])});
    return result;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::span<const int64_t> offsets_;
};

}  // namespace

Program emit_program(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets,
                     const std::array<int64_t, kTiers>& arena_bytes, int threads) {
  Program program{.sections = schedule.sections, .arena_bytes = arena_bytes, .threads = threads};
  const Emitter emitter(graph, schedule, offsets);
  for (const Step& step : schedule.steps) program.instructions.push_back(emitter.instruction(step));
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    const BufferId b = schedule.persistent[static_cast<size_t>(id)];
    if (b != kNone) program.homes.push_back({id, emitter.place(b)});
  }
  for (size_t i = 0; i < graph.results.size(); ++i)
    program.results.push_back({graph.results[i], emitter.place(schedule.results[i])});
  const bool one_lane = std::all_of(schedule.steps.begin(), schedule.steps.end(),
                                    [](const Step& step) { return step.lane == Lane::kCompute; });
  if (!one_lane) WaitFinder(program).run();
  return program;
}

}  // namespace spillway
