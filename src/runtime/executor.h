// Runs a Program. It decides nothing: it resolves every operand to an address once, and then calls kernels in order.
//
// Not thread-safe. After construction it allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/kernel.h"
#include "base/parallel.h"
#include "plan/program.h"
#include "runtime/arena.h"

namespace spillway {

// What an instruction has cost so far.
struct InstructionProfile {
  int64_t calls = 0;
  double seconds = 0;
};

class Executor {
 public:
  // Allocates the arenas. The graph, the program and the pool are borrowed and must outlive the executor.
  // REQUIRES: verify(graph, program) is empty, and the pool has no more threads than the program was made for.
  Executor(const Graph& graph, const Program& program, ThreadPool& pool);

  // The memory of a persistent or batch value, with all tokens. REQUIRES: it has a home in the device tier.
  [[nodiscard]] TensorView home(ValueId id) const;
  // The memory of Graph::results[index]; valid from the end of its section until the next one begins.
  [[nodiscard]] TensorView result(size_t index) const;

  // The number of rows that per-token tensors have in the next runs. REQUIRES: 0 <= tokens <= Graph::tokens.
  void set_tokens(int64_t tokens);
  void run(Phase phase);

  // The end of the highest byte that any executed instruction or home has used.
  [[nodiscard]] int64_t measured_peak_bytes(Tier tier) const { return peak_bytes_[static_cast<size_t>(tier)]; }
  [[nodiscard]] const std::vector<InstructionProfile>& profile() const { return profile_; }

 private:
  struct Resolved {
    void (*kernel)(const KernelArgs&) = nullptr;
    std::vector<TensorView> inputs, outputs;
    std::vector<TensorView*> per_token;  // those of the above whose rows follow the stream
    std::byte* workspace = nullptr;
    const Attributes* attributes = nullptr;
    std::array<int64_t, kTiers> top_bytes{};
  };

  [[nodiscard]] TensorView view(const Operand& operand) const;
  void resolve(const Instruction& instruction);

  const Graph& graph_;
  const Program& program_;
  ThreadPool& pool_;
  std::vector<Arena> arenas_;  // by tier
  std::vector<Resolved> resolved_;
  std::vector<int32_t> homes_;  // by value: index into Program::homes, or kNone
  std::vector<InstructionProfile> profile_;
  std::array<int64_t, kTiers> peak_bytes_{};
};

}  // namespace spillway
