#include "runtime/loaded_program.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "dist/collective.h"
#include "graph/operation.h"

namespace spillway {
namespace {

void raise(std::array<int64_t, kTiers>& tops, const Place& place, int64_t unit) {
  int64_t& top = nth(tops, place.tier);
  if (place.bytes > 0) top = std::max(top, place.offset + align_up(place.bytes, unit));
}

}  // namespace

LoadedProgram::LoadedProgram(const Graph& graph, const Program& program, Memory& memory, const ProgramPeers& peers)
    : graph_(graph),
      program_(program),
      memory_(memory),
      peers_(peers),
      contributors_(std::max<size_t>(1, graph.axes.size()), peers.host ? peers.host->size() : 0),
      homes_(graph.values.size(), kNone) {
  for (const Axis& axis : graph.axes) rows_.push_back(axis.capacity);
  for (size_t i = 0; i < program.homes.size(); ++i) {
    nth(homes_, program.homes[i].value) = static_cast<int32_t>(i);
  }
  steps_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) resolve(instruction);
}

void LoadedProgram::resolve(const Instruction& instruction) {
  Step& step = steps_.emplace_back();
  step.lane = instruction.lane;
  if (instruction.kind == Instruction::Kind::kRun) {
    resolve_operation(instruction, step);
  } else {
    resolve_copy(instruction, step);
  }
  const bool in_blocks = Memory::is_disk_lane(step.lane) && step.from_place.tier != Tier::kFiles;
  const int64_t unit = in_blocks ? kDiskAlignment : 1;
  raise(step.top_bytes, instruction.workspace, unit);
  for (const Operand& operand : instruction.inputs) raise(step.top_bytes, operand.place, unit);
  for (const Operand& operand : instruction.outputs) raise(step.top_bytes, operand.place, unit);
}

void LoadedProgram::resolve_operation(const Instruction& instruction, Step& step) {
  const Operation& op = graph_.op(instruction.op);
  for (const Operand& operand : instruction.inputs) step.inputs.push_back(view(operand));
  for (const Operand& operand : instruction.outputs) step.outputs.push_back(view(operand));
  const auto add_follower = [&](ValueId value, TensorView& operand) {
    const ValueType& type = graph_.value(value).type;
    if (type.follows_axis()) step.followers.push_back({&operand, type.axis});
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != kNone) add_follower(op.inputs[i], step.inputs[i]);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) add_follower(op.outputs[i], step.outputs[i]);
  if (op.def->collective) return resolve_collective(instruction, step);
  SPILLWAY_CHECK(step.lane == Lane::kCompute || step.lane == Lane::kHostCompute, "{} on lane {}", op.def->name,
                 name_of(step.lane));
  const DeviceKind kind = step.lane == Lane::kCompute ? device().kind() : DeviceKind::kCpu;
  step.kernel = op.def->kernel(kind);
  if (!step.kernel)
    throw input_error("device", "expected operations that run on {}, got {}; write device: cpu", name_of(kind),
                      op.def->name);
  step.attributes = &op.attributes;
  step.pool = &memory_.pool(step.lane);
  if (instruction.workspace.bytes > 0) step.workspace = memory_.address(instruction.workspace);
}

void LoadedProgram::resolve_collective(const Instruction& instruction, Step& step) const {
  const Operation& op = graph_.op(instruction.op);
  step.peers = instruction.outputs[0].place.tier == Tier::kHost ? peers_.host : peers_.device;
  SPILLWAY_CHECK(step.peers && step.peers->size() % op.attributes.integer("ranks") == 0,
                 "{} of {} ranks in a job of {}", op.def->name, op.attributes.integer("ranks"),
                 step.peers ? step.peers->size() : 1);
  step.collective = op.def->collective;
  step.contributors = static_cast<AxisId>(op.attributes.integer_or(kAxisAttribute, static_cast<int64_t>(kTokenAxis)));
  step.attributes = &op.attributes;
  step.bytes = static_cast<int64_t>(cost_of(graph_, instruction.op).sent_bytes);
  if (const ValueType& type = graph_.value(op.outputs[0]).type; type.follows_axis() && type.shape[0] > 0) {
    step.axis = type.axis;
    step.row_bytes = step.bytes / type.shape[0];
  }
}

void LoadedProgram::set_contributors(int contributors, AxisId tokens) {
  SPILLWAY_CHECK(peers_.host && contributors >= 0 && contributors <= peers_.host->size(), "{} of {} ranks",
                 contributors, peers_.host ? peers_.host->size() : 1);
  nth(contributors_, tokens) = contributors;
}

void LoadedProgram::resolve_copy(const Instruction& instruction, Step& step) {
  const Operand &from = instruction.inputs[0], &to = instruction.outputs[0];
  const ValueType& type = graph_.value(from.value).type;
  step.from_place = from.place;
  step.to_place = to.place;
  step.from = memory_.address(from.place);
  step.to = memory_.address(to.place);
  step.bytes = type.bytes();
  // A persistent value keeps its content from one stream to the next, whatever their lengths.
  if (type.follows_axis() && graph_.persistent_root(from.value) == kNone && type.shape[0] > 0) {
    step.axis = type.axis;
    step.row_bytes = type.bytes() / type.shape[0];
  }
  if (from.place.tier == Tier::kFiles) step.file = memory_.file_place(from.place);
  if (instruction.guard != kNone) resolve_guard(instruction, step);
}

// The copies of a lane that share a router follow each other, so the first of them fetches its numbers for all.
void LoadedProgram::resolve_guard(const Instruction& instruction, Step& step) {
  const Operand& offsets = instruction.inputs[1];
  const TensorView numbers = view(offsets);
  if (device().shares_host_memory()) {
    step.guard = numbers.as<int32_t>() + instruction.guard;
    return;
  }
  auto fetched = std::find_if(fetched_.rbegin(), fetched_.rend(),
                              [&](const FetchedGuards& guards) { return guards.lane == instruction.lane; });
  if (fetched == fetched_.rend() || fetched->offsets != offsets) {
    fetched_.push_back({instruction.lane, offsets, std::vector<int32_t>(static_cast<size_t>(numbers.elems()))});
    fetched = fetched_.rbegin();
    step.fetched = narrow<int32_t>(std::ssize(fetched_) - 1);
  }
  step.guard = fetched->numbers.data() + instruction.guard;
}

TensorView LoadedProgram::view(const Operand& operand) const {
  if (operand.value == kNone) return {};
  const ValueType& type = graph_.value(operand.value).type;
  std::byte* const data = memory_.address(operand.place);
  SPILLWAY_CHECK(data, "{} is used where it lies, in the {} tier", graph_.value(operand.value).name,
                 name_of(operand.place.tier));
  return {data, type.dtype, type.shape};
}

const Place& LoadedProgram::home_of(ValueId id) const {
  const int32_t index = nth(homes_, id);
  SPILLWAY_CHECK(index != kNone, "{} has no home", graph_.value(id).name);
  return nth(program_.homes, index).place;
}

void LoadedProgram::set_rows(AxisId id, int64_t rows) {
  const Axis& axis = graph_.axis(id);
  SPILLWAY_CHECK(rows >= 0 && rows <= axis.capacity, "{} {} in a plan for {}", rows, axis.name, axis.capacity);
  nth(rows_, id) = rows;
  for (Step& step : steps_) {
    for (const Follower& follower : step.followers) {
      if (follower.axis == id) follower.operand->shape.set(0, rows);
    }
    if (step.axis == id) step.bytes = step.row_bytes * rows;
  }
  for (size_t other = 0; other < graph_.axes.size(); ++other)
    if (graph_.axes[other].of == id) set_rows(static_cast<AxisId>(other), rows_of(graph_.axes[other], rows));
}

bool LoadedProgram::skip(Step& step) {
  if (!step.guard) return false;
  if (step.fetched != kNone) {
    FetchedGuards& guards = nth(fetched_, step.fetched);
    const std::byte* const from = memory_.address(guards.offsets.place);
    const int64_t bytes = guards.offsets.place.bytes;
    if (DiskBridge* bridge = memory_.bridge(step.lane)) {
      bridge->fetch(guards.numbers.data(), from, bytes);
    } else {
      memory_.device_queue(step.lane).copy(guards.numbers.data(), from, bytes);
      memory_.device_queue(step.lane).finish();
    }
  }
  return step.is_skipped = step.guard[0] == step.guard[1];
}

void LoadedProgram::execute(int32_t instruction) {
  Step& step = nth(steps_, instruction);
  if (skip(step)) return;
  if (step.kernel) {
    memory_.device_queue(step.lane).run(step.kernel, {.inputs = step.inputs,
                                                      .outputs = step.outputs,
                                                      .workspace = step.workspace,
                                                      .attributes = *step.attributes,
                                                      .threads = step.pool});
  } else if (step.collective) {
    step.collective({.inputs = step.inputs,
                     .outputs = step.outputs,
                     .attributes = *step.attributes,
                     .peers = *step.peers,
                     .contributors = nth(contributors_, step.contributors)});
    step.peers->finish();
  } else if (!Memory::is_disk_lane(step.lane)) {
    memory_.device_queue(step.lane).copy(step.to, step.from, step.bytes);
  } else if (runs_ahead(step.lane) || (step.from_place.tier != Tier::kDevice && step.to_place.tier != Tier::kDevice)) {
    memory_.disk_queue(step.lane).wait(*start(instruction));
  } else {
    move_over_bridge(step);
  }
}

void LoadedProgram::move_over_bridge(const Step& step) {
  DiskQueue& disk = memory_.disk_queue(step.lane);
  DiskBridge& bridge = *memory_.bridge(step.lane);
  const auto blocks = [](std::byte* host, int64_t bytes) { return span_of(host, align_up(bytes, kDiskAlignment)); };
  if (step.lane == Lane::kDiskWrite) {
    bridge.write(disk, step.from, step.bytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
      return disk.write_scratch(step.to_place.offset + offset, blocks(host, bytes));
    });
  } else if (step.from_place.tier == Tier::kDisk) {
    bridge.read(disk, step.to, step.bytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
      return disk.read_scratch(step.from_place.offset + offset, blocks(host, bytes));
    });
  } else {
    bridge.read(disk, step.to, step.bytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
      return disk.read_file(step.file.file, step.file.offset + offset, span_of(host, bytes));
    });
  }
}

std::optional<DiskQueue::Ticket> LoadedProgram::start(int32_t instruction) {
  Step& step = nth(steps_, instruction);
  if (skip(step)) return std::nullopt;
  DiskQueue& disk = memory_.disk_queue(step.lane);
  if (step.from_place.tier == Tier::kFiles)
    return disk.read_file(step.file.file, step.file.offset, span_of(step.to, step.bytes));
  const int64_t blocks = align_up(step.bytes, kDiskAlignment);
  return step.from_place.tier == Tier::kDisk ? disk.read_scratch(step.from_place.offset, span_of(step.to, blocks))
                                             : disk.write_scratch(step.to_place.offset, span_of(step.from, blocks));
}

bool LoadedProgram::write_same_bytes(int32_t a, int32_t b) const {
  const Place &x = at(a).to_place, &y = at(b).to_place;
  return x.tier == y.tier && x.offset < y.offset + align_up(y.bytes, kDiskAlignment) &&
         y.offset < x.offset + align_up(x.bytes, kDiskAlignment);
}

}  // namespace spillway
