// Reads texts of a grammar byte by byte. A state stands for all ways in which the bytes so far can be read, each a node
// with the stack of nodes to return to; states and steps are found when they are needed first, and kept.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace spillway::text {

// Not thread-safe. Owns the grammar, which must be finished.
class ByteAutomaton {
 public:
  using State = int32_t;
  static constexpr State kStart = 0, kDead = -1;

  explicit ByteAutomaton(ByteGrammar grammar);

  // Returns the state after another byte; kDead if no text goes on so.
  [[nodiscard]] State step(State state, uint8_t byte) {
    const State known = steps_[index(state, byte)];
    return known == kUnknown ? find_step(state, byte) : known;
  }
  // Returns true if the bytes so far are a whole text.
  [[nodiscard]] bool is_whole(State state) const { return is_whole_[static_cast<size_t>(state)]; }
  // Returns the number of states that are kept.
  [[nodiscard]] int64_t states() const { return static_cast<int64_t>(is_whole_.size()); }
  // Forgets all states but kStart.
  void forget();

 private:
  static constexpr State kUnknown = -2;
  static constexpr int32_t kBottom = -1;
  // Any more are left out: fewer texts are read then, and each way that is left can be completed.
  static constexpr size_t kMaxWays = 512;

  struct Frame {
    NodeId back;
    int32_t below;
  };
  struct Way {
    NodeId node;
    int32_t stack;
    friend auto operator<=>(const Way&, const Way&) = default;
  };

  [[nodiscard]] size_t index(State state, uint8_t byte) const {
    return static_cast<size_t>(state) * classes_ + class_of_[byte];
  }
  [[nodiscard]] State find_step(State state, uint8_t byte);
  [[nodiscard]] int32_t push(NodeId back, int32_t below);
  [[nodiscard]] State state_of(std::vector<Way> ways);

  ByteGrammar grammar_;
  std::array<uint8_t, 256> class_of_{};  // bytes that no edge tells apart
  size_t classes_ = 0;
  std::vector<Frame> stacks_;
  std::unordered_map<uint64_t, int32_t> stack_of_;
  std::map<std::vector<Way>, State> state_of_;
  std::vector<const std::vector<Way>*> ways_;  // by state
  std::vector<bool> is_whole_;                 // by state
  std::vector<State> steps_;                   // by state and class
};

}  // namespace spillway::text
