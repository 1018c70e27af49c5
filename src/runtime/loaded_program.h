// A Program bound to memory: every operand is resolved to an address once.
//
// It executes one instruction at a time; a LaneRunner chooses the order and the thread. Different instructions may be
// executed by different threads at once, except that those of one lane belong to one thread at a time. Everything else
// belongs to the thread that runs sections, between sections. After construction nothing is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/kernel.h"
#include "base/index.h"
#include "dist/peers.h"
#include "runtime/memory.h"

namespace spillway {

// The ranks of a program's collectives, borrowed; all null for a program without.
struct ProgramPeers {
  Peers* host = nullptr;    // for operands in host memory
  Peers* device = nullptr;  // for operands in the device's; the same where the two are one
};

class LoadedProgram {
 public:
  // Borrows all arguments, which must outlive this; `memory` was made for the program, among others. Throws InputError
  // for an operation that the device has no kernel for. REQUIRES: verify(graph, program) is empty.
  LoadedProgram(const Graph& graph, const Program& program, Memory& memory, const ProgramPeers& peers);
  LoadedProgram(LoadedProgram&&) = delete;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Program& program() const { return program_; }

  // Returns the home of a persistent or batch value. REQUIRES: it has a home.
  [[nodiscard]] const Place& home_of(ValueId id) const;
  // Returns the memory of a place with the value's shape; in the device tier it is the device's. REQUIRES: the place is
  // in the device or the host tier.
  [[nodiscard]] TensorView view(const Operand& operand) const;

  // Sets the number of rows of values that follow the axis from now on; at first it is the axis's capacity. Also
  // sets those of the axes whose rows depend on it (Axis::of).
  void set_rows(AxisId axis, int64_t rows);
  // Returns the numbers of rows, by axis.
  [[nodiscard]] const std::vector<int64_t>& rows() const { return rows_; }
  // Returns true if the effect of the instruction depends on those numbers.
  [[nodiscard]] bool follows_rows(int32_t instruction) const {
    return !at(instruction).followers.empty() || at(instruction).axis != kNoAxis;
  }

  // Sets the number of ranks, from the first, that add to the sums of collectives of a micro-batch from now on, by the
  // axis of its tokens; at first all of them. REQUIRES: the program has peers, and 0 <= contributors <= peers.size().
  void set_contributors(int contributors, AxisId tokens);

  // Runs the operation, or copies and returns when the bytes have arrived; on an asynchronous lane, puts either into
  // the lane's queue. Throws MachineError if a transfer fails.
  void execute(int32_t instruction);

  [[nodiscard]] Memory& memory() const { return memory_; }
  [[nodiscard]] Device& device() const { return memory_.device(); }
  // Returns true for lanes whose work the device does on its own time.
  [[nodiscard]] bool is_asynchronous(Lane lane) const {
    return device().is_asynchronous() &&
           (lane == Lane::kCompute || lane == Lane::kHostToDevice || lane == Lane::kDeviceToHost);
  }

  // Starts a transfer of a disk lane ahead: the lane's disk_queue().wait() finishes it. Returns nullopt if its guard
  // says that nothing moves. REQUIRES: the instruction is of a disk lane, and runs_ahead(lane).
  [[nodiscard]] std::optional<DiskQueue::Ticket> start(int32_t instruction);
  // Returns true if its transfers can start ahead: not over a bridge, which execute() uses if the disk cannot reach the
  // device.
  [[nodiscard]] bool runs_ahead(Lane lane) const { return Memory::is_disk_lane(lane) && !memory_.bridge(lane); }
  // Returns true if two transfers of one disk lane write the same bytes, so that the first must finish before the
  // second starts.
  [[nodiscard]] bool write_same_bytes(int32_t a, int32_t b) const;

  // Returns the bytes that a copy moves now (one with a guard: the last time), or that a rank sends for a collective; 0
  // for other operations. REQUIRES: called by the thread of the instruction's lane, or between sections.
  [[nodiscard]] int64_t moved_bytes(int32_t instruction) const {
    return at(instruction).is_skipped ? 0 : at(instruction).bytes;
  }
  // Returns what the operation of an instruction writes, with the rows that it has now; none for a copy.
  [[nodiscard]] const std::vector<TensorView>& outputs(int32_t instruction) const { return at(instruction).outputs; }
  // Returns the end of the highest byte of each tier that an instruction touches.
  [[nodiscard]] const std::array<int64_t, kTiers>& top_bytes(int32_t instruction) const {
    return at(instruction).top_bytes;
  }

 private:
  // An operand whose rows follow an axis.
  struct Follower {
    TensorView* operand = nullptr;
    AxisId axis = kNoAxis;
  };
  struct Step {
    Lane lane = Lane::kCompute;
    // Operations.
    KernelFunction kernel = nullptr;
    CollectiveFunction collective = nullptr;  // without either it is a copy
    Peers* peers = nullptr;                   // of a collective
    AxisId contributors = kTokenAxis;         // and the axis by which it finds the number of them
    std::vector<TensorView> inputs, outputs;
    std::vector<Follower> followers;
    std::byte* workspace = nullptr;
    const Attributes* attributes = nullptr;
    ThreadPool* pool = nullptr;
    // Copies; places in memory have addresses.
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    Place from_place, to_place;
    FilePlace file;  // if from_place is in Tier::kFiles
    // Copies and collectives.
    AxisId axis = kNoAxis;  // the axis that the value follows; kNoAxis: all of it moves, whatever the rows
    int64_t row_bytes = 0;
    int64_t bytes = 0;
    const int32_t* guard = nullptr;  // of a copy: it moves nothing where the two numbers here are equal
    int32_t fetched = kNone;         // the guards that it fetches for itself and for those of its lane that follow
    bool is_skipped = false;         // it moved nothing the last time

    std::array<int64_t, kTiers> top_bytes{};
  };

  // Numbers of guards that the device makes in memory of its own, as the host sees them on one lane.
  struct FetchedGuards {
    Lane lane = Lane::kHostToDevice;
    Operand offsets;
    std::vector<int32_t> numbers;
  };

  [[nodiscard]] const Step& at(int32_t i) const { return nth(steps_, i); }
  void move_over_bridge(const Step& step);
  void resolve_guard(const Instruction& instruction, Step& step);
  // Returns true if the step's guard says that nothing moves. REQUIRES: what makes it has finished, or is in the queue
  // that the lane's queue waits for.
  [[nodiscard]] bool skip(Step& step);
  void resolve(const Instruction& instruction);
  void resolve_operation(const Instruction& instruction, Step& step);
  void resolve_collective(const Instruction& instruction, Step& step) const;
  void resolve_copy(const Instruction& instruction, Step& step);

  const Graph& graph_;
  const Program& program_;
  Memory& memory_;
  ProgramPeers peers_;
  std::vector<int> contributors_;  // by axis, of one at least
  std::vector<int32_t> homes_;     // by value: index into Program::homes, or kNone
  std::vector<Step> steps_;
  std::vector<FetchedGuards> fetched_;
  std::vector<int64_t> rows_;  // by axis
};

}  // namespace spillway
