#include "runtime/executor.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "graph/operation.h"

namespace spillway {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void raise(std::array<int64_t, kTiers>& tops, const Place& place) {
  int64_t& top = tops[static_cast<size_t>(place.tier)];
  if (place.bytes > 0) top = std::max(top, place.offset + place.bytes);
}

}  // namespace

Executor::Executor(const Graph& graph, const Program& program, ThreadPool& pool)
    : graph_(graph),
      program_(program),
      pool_(pool),
      homes_(graph.values.size(), kNone),
      profile_(program.instructions.size()) {
  SPILLWAY_CHECK(pool.threads() <= program.threads, "{} threads in a plan for {}", pool.threads(), program.threads);
  for (int tier = 0; tier < kTiers; ++tier) {
    arenas_.emplace_back(name_of(static_cast<Tier>(tier)), program.arena_bytes[static_cast<size_t>(tier)]);
  }
  for (size_t i = 0; i < program.homes.size(); ++i) {
    homes_[static_cast<size_t>(program.homes[i].value)] = static_cast<int32_t>(i);
    raise(peak_bytes_, program.homes[i].place);
  }
  resolved_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) resolve(instruction);
}

void Executor::resolve(const Instruction& instruction) {
  SPILLWAY_CHECK(instruction.kind == Instruction::Kind::kRun && instruction.lane == Lane::kCompute,
                 "an instruction on lane {}", name_of(instruction.lane));
  const Operation& op = graph_.op(instruction.op);
  SPILLWAY_CHECK(op.def->cpu, "{} has no kernel for the CPU", op.def->name);
  Resolved& resolved = resolved_.emplace_back();
  resolved.kernel = op.def->cpu;
  resolved.attributes = &op.attributes;
  for (const Operand& operand : instruction.inputs) resolved.inputs.push_back(view(operand));
  for (const Operand& operand : instruction.outputs) resolved.outputs.push_back(view(operand));
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != kNone && graph_.value(op.inputs[i]).type.per_token)
      resolved.per_token.push_back(&resolved.inputs[i]);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (graph_.value(op.outputs[i]).type.per_token) resolved.per_token.push_back(&resolved.outputs[i]);
  }
  if (instruction.workspace.bytes > 0) {
    resolved.workspace = arenas_[static_cast<size_t>(instruction.workspace.tier)].at(instruction.workspace.offset);
  }
  raise(resolved.top_bytes, instruction.workspace);
  for (const Operand& operand : instruction.inputs) raise(resolved.top_bytes, operand.place);
  for (const Operand& operand : instruction.outputs) raise(resolved.top_bytes, operand.place);
}

TensorView Executor::view(const Operand& operand) const {
  if (operand.value == kNone) return {};
  const ValueType& type = graph_.value(operand.value).type;
  return {arenas_[static_cast<size_t>(operand.place.tier)].at(operand.place.offset), type.dtype, type.shape};
}

TensorView Executor::home(ValueId id) const {
  const int32_t index = homes_[static_cast<size_t>(id)];
  SPILLWAY_CHECK(index != kNone, "{} has no home", graph_.value(id).name);
  return view(program_.homes[static_cast<size_t>(index)]);
}

TensorView Executor::result(size_t index) const { return view(program_.results[index]); }

void Executor::set_tokens(int64_t tokens) {
  SPILLWAY_CHECK(tokens >= 0 && tokens <= graph_.tokens, "{} tokens in a plan for {}", tokens, graph_.tokens);
  for (Resolved& resolved : resolved_) {
    for (TensorView* tensor : resolved.per_token) tensor->shape.set(0, tokens);
  }
}

void Executor::run(Phase phase) {
  for (const Section& section : program_.sections) {
    if (section.phase != phase) continue;
    double before = now_seconds();
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Resolved& r = resolved_[static_cast<size_t>(i)];
      r.kernel({.inputs = r.inputs,
                .outputs = r.outputs,
                .workspace = r.workspace,
                .attributes = *r.attributes,
                .threads = &pool_});
      const double after = now_seconds();
      InstructionProfile& profile = profile_[static_cast<size_t>(i)];
      ++profile.calls;
      profile.seconds += after - before;
      before = after;
      for (size_t tier = 0; tier < kTiers; ++tier) peak_bytes_[tier] = std::max(peak_bytes_[tier], r.top_bytes[tier]);
    }
  }
}

}  // namespace spillway
