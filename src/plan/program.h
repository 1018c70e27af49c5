// The instructions of a Plan: operations and copies on lanes, with every operand at an offset of a tier's arena.
//
// The runtime executes a Program, the simulator plays it against a Machine, the verifier replays it. All three read
// only this (and the Graph, for what an operation means); none of them decides anything.
//
// Instructions of one lane run in their order here. An instruction also waits for those instructions of other lanes
// that it names. A pass over a section begins when everything before it has finished on all lanes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"

namespace spillway {

// The memories of a run. kFiles is not memory of ours: the tensors of the user's model folder, read in place and never
// written. An offset there counts through the values that live there, in the order of the program's homes.
enum class Tier : uint8_t { kDevice, kHost, kDisk, kFiles };
constexpr int kTiers = 4;
constexpr int kBudgetedTiers = 3;  // all but kFiles have a capacity, a budget and an arena
inline constexpr std::array kEachTier = {Tier::kDevice, Tier::kHost, Tier::kDisk, Tier::kFiles};
inline constexpr std::array kEachBudgetedTier = {Tier::kDevice, Tier::kHost, Tier::kDisk};
static_assert(kEachTier.size() == kTiers && kEachBudgetedTier.size() == kBudgetedTiers);
[[nodiscard]] std::string_view name_of(Tier tier);

enum class Lane : uint8_t { kCompute, kHostToDevice, kDeviceToHost, kDiskRead, kDiskWrite, kHostCompute, kPeer };
constexpr int kLanes = 7;
inline constexpr std::array kEachLane = {Lane::kCompute,   Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kDiskRead,
                                         Lane::kDiskWrite, Lane::kHostCompute,  Lane::kPeer};
static_assert(kEachLane.size() == kLanes);
[[nodiscard]] std::string_view name_of(Lane lane);
// Returns the lane that copies between the same two tiers the other way; itself if there is none.
[[nodiscard]] constexpr Lane opposite_of(Lane lane) {
  switch (lane) {
    case Lane::kHostToDevice:
      return Lane::kDeviceToHost;
    case Lane::kDeviceToHost:
      return Lane::kHostToDevice;
    case Lane::kDiskRead:
      return Lane::kDiskWrite;
    case Lane::kDiskWrite:
      return Lane::kDiskRead;
    default:
      return lane;
  }
}

// The bytes [offset, offset + bytes) of a tier's arena. Transfers from and to the scratch file move whole blocks of
// kDiskAlignment: their places begin at multiples of it in both tiers, and own the bytes up to the next multiple.
struct Place {
  Tier tier = Tier::kDevice;
  int64_t offset = -1;
  int64_t bytes = 0;
  bool operator==(const Place&) const = default;
};

struct Operand {
  ValueId value = kNone;  // kNone: an optional operand that is absent
  Place place;
  bool operator==(const Operand&) const = default;
};

struct Instruction {
  enum class Kind : uint8_t {
    kRun,   // execute operation `op`, on kCompute with operands in device memory, on kHostCompute with all in host
            // memory, or a collective on kPeer with all in either
    kCopy,  // move inputs[0] to outputs[0], the same value in another place; inputs[1] are those of its guard, if any
  };
  Kind kind = Kind::kRun;
  Lane lane = Lane::kCompute;
  OpId op = kNone;
  bool recompute = false;  // a second execution of a forward operation, for the backward pass
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  Place workspace;  // 0 bytes: none
  // Of a copy with a guard: it moves nothing where the numbers at `guard` and behind it, of its second input, are
  // equal. Operations that read what it brings have the same guard (OpDef::guard). Predictions count on `chance` moves.
  int32_t guard = kNone;
  double chance = 1;
  std::vector<int32_t> waits;  // instructions of other lanes that must have finished; all before this one in the list
};

// Returns the bytes that predictions count for a copy of so many, if the chance that it moves them is this.
[[nodiscard]] inline int64_t expected_bytes(int64_t bytes, double chance) {
  return chance == 1 ? bytes : static_cast<int64_t>(chance * static_cast<double>(bytes));
}

// Returns true if it is a transfer from or to the scratch file, which moves whole blocks.
[[nodiscard]] bool meets_disk(const Instruction& instruction);

// Returns how often a section runs in a step of `micro_batches`.
[[nodiscard]] constexpr int64_t runs_per_step(Repeats repeats, int64_t micro_batches) {
  return repeats == Repeats::kStep ? 1 : micro_batches;
}

// The instructions [begin, end) of one of the graph's sections.
struct SectionRange {
  Repeats repeats = Repeats::kMicroBatch;
  int32_t begin = 0;
  int32_t end = 0;
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<SectionRange> sections;  // one a section of the graph, in order, covering all instructions
  // The place of each persistent value between sections, and of each batch value during all of them.
  std::vector<Operand> homes;
  std::vector<Operand> results;  // where the host finds each result at the end of its section
  std::array<int64_t, kTiers> arena_bytes{};
  int threads = 1;  // of the compute lane: what the workspaces are sized for
};

}  // namespace spillway
