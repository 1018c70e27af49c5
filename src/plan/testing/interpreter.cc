// Executes programs of random graphs on real bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "plan/testing/mixed_bytes.h"
#include "plan/testing/random_program.h"

namespace spillway::testing {
namespace {

class Memory {
 public:
  explicit Memory(const Program& program) {
    for (size_t tier = 0; tier < kTiers; ++tier) resize(arenas_[tier], program.arena_bytes[tier]);
  }
  [[nodiscard]] bool contains(const Place& place) const {
    return place.offset >= 0 && place.offset + place.bytes <= static_cast<int64_t>(nth(arenas_, place.tier).size());
  }
  [[nodiscard]] uint8_t* at(const Place& place) { return nth(arenas_, place.tier).data() + place.offset; }

 private:
  std::array<Bytes, kTiers> arenas_;
};

class Interpreter {
 public:
  Interpreter(const Graph& graph, const Program& program, RandomStream& random)
      : graph_(graph), program_(program), random_(random), memory_(program) {}

  std::optional<Outcome> run() {
    for (const Operand& home : program_.homes) {
      if (!memory_.contains(home.place)) return std::nullopt;
      if (graph_.is_persistent(home.value))
        fill_bytes(memory_.at(home.place), home.place.bytes, initial_seed(home.value, 0));
    }
    for (int micro_step = 0; micro_step < 2; ++micro_step) {
      for (const Operand& home : program_.homes) {
        if (!graph_.is_persistent(home.value))
          fill_bytes(memory_.at(home.place), home.place.bytes, initial_seed(home.value, micro_step));
      }
      if (!run_section(0) || !run_section(1)) return std::nullopt;
    }
    if (!run_section(2)) return std::nullopt;
    for (const Operand& home : program_.homes) {
      if (graph_.is_persistent(home.value))
        outcome_[home.value] = hash_bytes(memory_.at(home.place), home.place.bytes, 0);
    }
    return outcome_;
  }

 private:
  // Any instruction whose lane predecessors and waits are done may come next.
  bool run_section(size_t index) {
    const SectionRange& section = program_.sections[index];
    std::vector<bool> done(program_.instructions.size(), false);
    for (int32_t i = 0; i < section.begin; ++i) nth(done, i) = true;
    for (int32_t left = section.end - section.begin; left > 0; --left) {
      std::vector<int32_t> ready;
      std::array<bool, kLanes> lane_seen{};
      for (int32_t i = section.begin; i < section.end; ++i) {
        const Instruction& instruction = nth(program_.instructions, i);
        if (nth(done, i) || std::exchange(nth(lane_seen, instruction.lane), true)) continue;
        if (std::all_of(instruction.waits.begin(), instruction.waits.end(), [&](int32_t w) { return nth(done, w); }))
          ready.push_back(i);
      }
      if (ready.empty()) return false;
      const int32_t next = ready[random_.below(static_cast<uint32_t>(ready.size()))];
      if (!run_instruction(nth(program_.instructions, next))) return false;
      nth(done, next) = true;
    }
    for (size_t k = 0; k < program_.results.size(); ++k) {
      const Operand& result = program_.results[k];
      if (graph_.op(graph_.value(graph_.results[k]).producer).section != static_cast<SectionId>(index)) continue;
      if (!memory_.contains(result.place)) return false;
      outcome_[graph_.results[k]] = hash_bytes(memory_.at(result.place), result.place.bytes, 0);
    }
    return true;
  }

  bool run_copy(const Place& from, const Place& to) {
    if (!memory_.contains(from) || !memory_.contains(to)) return false;
    std::memmove(memory_.at(to), memory_.at(from), static_cast<size_t>(from.bytes));
    // Transfers from and to the scratch file leave anything in the rest of their last block.
    if (from.tier != Tier::kDisk && to.tier != Tier::kDisk) return true;
    const Place rest{to.tier, to.offset + to.bytes, align_up(to.bytes, kDiskAlignment) - to.bytes};
    if (!memory_.contains(rest)) return false;
    fill_memory(memory_.at(rest), 0x5A, rest.bytes);
    return true;
  }

  // Returns true if a copy has no guard, or one that says that it moves.
  [[nodiscard]] std::optional<bool> moves(const Instruction& copy) {
    if (copy.guard == kNone) return true;
    const Place& offsets = copy.inputs[1].place;
    if (!memory_.contains(offsets)) return std::nullopt;
    std::array<int32_t, 2> rows;
    std::memcpy(rows.data(), memory_.at(offsets) + static_cast<size_t>(copy.guard) * sizeof(int32_t), sizeof rows);
    return rows[0] < rows[1];
  }

  bool run_instruction(const Instruction& instruction) {
    if (instruction.kind == Instruction::Kind::kCopy) {
      const std::optional<bool> moved = moves(instruction);
      if (!moved) return false;
      return !*moved || run_copy(instruction.inputs[0].place, instruction.outputs[0].place);
    }
    const Operation& op = graph_.op(instruction.op);
    const Place& workspace = instruction.workspace;
    if (workspace.bytes > 0) {
      if (!memory_.contains(workspace)) return false;
      fill_memory(memory_.at(workspace), 0xA5, workspace.bytes);
    }
    std::vector<uint64_t> hashes;
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      const Operand& input = instruction.inputs[i];
      if (input.value == kNone) continue;
      if (!memory_.contains(input.place)) return false;
      if (i >= kFirstExpert && !is_read(op.attributes, i, memory_.at(instruction.inputs[kOffsets].place))) continue;
      hashes.push_back(hash_bytes(memory_.at(input.place), input.place.bytes, 0));
    }
    for (size_t i = 0; i < instruction.outputs.size(); ++i) {
      const Place& place = instruction.outputs[i].place;
      if (!memory_.contains(place)) return false;
      fill_value(graph_.value(op.outputs[i]).type, memory_.at(place), output_seed(instruction.op, i, hashes));
    }
    return true;
  }

  const Graph& graph_;
  const Program& program_;
  RandomStream& random_;
  Memory memory_;
  Outcome outcome_;
};

}  // namespace

std::optional<Outcome> execute(const Graph& graph, const Program& program, RandomStream& random) {
  return Interpreter(graph, program, random).run();
}

}  // namespace spillway::testing
