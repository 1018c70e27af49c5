#include "report/timeline_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/index.h"
#include "graph/operation.h"
#include "plan/usage.h"
#include "report/work_phase.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr double kUnitSeconds = 1e-7;

// An infinite time, of a lane that the machine does not have, is shown at the beginning.
int64_t units(double seconds) { return std::isfinite(seconds) ? std::llround(seconds / kUnitSeconds) : 0; }

class StringTable {
 public:
  int64_t index(const std::string& text) {
    const auto [entry, added] = indices_.try_emplace(text, std::ssize(indices_));
    if (added) strings_.push_back(text);
    return entry->second;
  }
  [[nodiscard]] ordered_json take() { return std::move(strings_); }

 private:
  std::map<std::string, int64_t> indices_;
  ordered_json strings_ = ordered_json::array();
};

// Neighbours of one lane that are shown as one.
struct Group {
  int32_t first = 0, last = 0, count = 1;
  int32_t section = 0;
  int64_t bytes = 0;
};

class TimelineWriter {
 public:
  TimelineWriter(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}

  // Nothing is merged across a stall of `timeline`.
  void keep_apart(const Timeline& timeline) {
    after_stall_.resize(program_.instructions.size());
    for (const Stall& stall : timeline.stalls) {
      if (stall.next != kNone) nth(after_stall_, stall.next) = true;
    }
  }

  void make_groups(size_t most) {
    const size_t size = program_.instructions.size();
    const auto limit = static_cast<int32_t>((size + most - 1) / most);
    group_of_.resize(size);
    std::array<int32_t, kLanes> open;
    open.fill(kNone);
    for (int32_t section = 0; section < std::ssize(program_.sections); ++section) {
      const SectionRange& range = nth(program_.sections, section);
      for (int32_t i = range.begin; i < range.end; ++i) {
        int32_t& group = nth(open, at(i).lane);
        if (group == kNone || !joins(i, section, nth(groups_, group), limit)) {
          group = static_cast<int32_t>(groups_.size());
          groups_.push_back({.first = i, .last = i, .count = 0, .section = section});
        }
        Group& g = nth(groups_, group);
        g.last = i;
        ++g.count;
        g.bytes += bytes_of(i);
        nth(group_of_, i) = group;
      }
    }
  }

  // `blocks`: how many stand before those of this program.
  void add_instructions(StringTable& strings, int64_t blocks, ordered_json& rows) const {
    for (const Group& group : groups_) {
      const Instruction& instruction = at(group.first);
      const ValueId value = instruction.outputs[0].value;
      const BlockId block = block_of(group.first);
      rows.push_back({static_cast<int>(instruction.lane), class_of(group.first, group.section),
                      strings.index(what(instruction)), strings.index(graph_.value(value).name),
                      block == kNone ? block : blocks + block, group.bytes, group.count});
    }
  }

  // `groups`: how many rows stand before those of this program.
  void add_times(const Timeline& timeline, int64_t groups, ordered_json& json) const {
    for (const Group& group : groups_) {
      const double begin = nth(timeline.times, group.first).start;
      json["start"].push_back(units(begin));
      json["duration"].push_back(units(nth(timeline.times, group.last).finish - begin));
    }
    for (const Stall& stall : timeline.stalls) {
      json["stalls"].push_back(
          {units(stall.start), units(stall.finish - stall.start), groups + nth(group_of_, stall.waits_for)});
    }
    json["seconds"] = std::max(json["seconds"].get<double>(), timeline.seconds);
  }

 private:
  [[nodiscard]] const Instruction& at(int32_t i) const { return nth(program_.instructions, i); }

  [[nodiscard]] bool joins(int32_t i, int32_t section, const Group& group, int32_t limit) const {
    return group.count < limit && group.section == section && !nth(after_stall_, i) &&
           block_of(i) == block_of(group.first) && class_of(i, section) == class_of(group.first, section);
  }

  [[nodiscard]] int class_of(int32_t i, int32_t section) const {
    const Instruction& instruction = at(i);
    if (instruction.kind == Instruction::Kind::kCopy)
      return static_cast<int>(class_of_moved(graph_.value(instruction.inputs[0].value)));
    return kMemoryClasses + static_cast<int>(phase_of(graph_, section, instruction));
  }

  [[nodiscard]] int64_t bytes_of(int32_t i) const {
    int64_t sum = 0;
    for (const Operand& output : at(i).outputs) sum += output.place.bytes;
    return sum;
  }

  [[nodiscard]] BlockId block_of(int32_t i) const {
    const Instruction& instruction = at(i);
    return instruction.op != kNone ? graph_.op(instruction.op).block : graph_.value(instruction.inputs[0].value).block;
  }

  [[nodiscard]] std::string what(const Instruction& instruction) const {
    if (instruction.op != kNone) return std::string(graph_.op(instruction.op).def->name);
    return fmt::format("{} to {}", name_of(instruction.inputs[0].place.tier),
                       name_of(instruction.outputs[0].place.tier));
  }

  const Graph& graph_;
  const Program& program_;
  std::vector<bool> after_stall_;
  std::vector<Group> groups_;
  std::vector<int32_t> group_of_;  // by instruction
};

}  // namespace

ordered_json timeline_json(std::span<const TimelinePart> parts, size_t most) {
  StringTable strings;
  ordered_json instructions = ordered_json::array(), blocks = ordered_json::array();
  const ordered_json no_times = {{"seconds", 0.0},
                                 {"start", ordered_json::array()},
                                 {"duration", ordered_json::array()},
                                 {"stalls", ordered_json::array()}};
  ordered_json predicted = no_times, measured = no_times;
  const bool is_measured =
      std::all_of(parts.begin(), parts.end(), [](const TimelinePart& part) { return part.measured.has_value(); });
  for (const TimelinePart& part : parts) {
    TimelineWriter writer(*part.graph, *part.program);
    writer.keep_apart(part.predicted);
    if (is_measured) writer.keep_apart(*part.measured);
    writer.make_groups(most);
    const auto before = static_cast<int64_t>(instructions.size());
    writer.add_instructions(strings, static_cast<int64_t>(blocks.size()), instructions);
    writer.add_times(part.predicted, before, predicted);
    if (is_measured) writer.add_times(*part.measured, before, measured);
    for (const Block& block : part.graph->blocks) blocks.push_back(block.name);
  }
  return {{"unit_seconds", kUnitSeconds},
          {"strings", strings.take()},
          {"blocks", blocks},
          {"instructions", instructions},
          {"predicted", predicted},
          {"measured", is_measured ? measured : ordered_json(nullptr)}};
}

ordered_json timeline_json(const Graph& graph, const Program& program, const Timeline& predicted,
                           const std::optional<Timeline>& measured, size_t most) {
  const TimelinePart whole{&graph, &program, predicted, measured};
  return timeline_json(std::span(&whole, 1), most);
}

}  // namespace spillway
