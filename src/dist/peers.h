// The ranks of a job, as one of them sees them: what they exchange while they train.
//
// A rank is one process with one device. All ranks run the same program, so that the collectives below are called on
// all of them in the same order, with the same sizes. A job of one rank has no Peers (a null pointer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/cut.h"

namespace spillway {

// The order in which contributions are added to a sum. All ranks have the same.
struct FoldOrder {
  int contributors = 0;  // ranks 0 to contributors - 1 contribute
  int together = 1;      // of so many neighbouring ranks, those of a host, contributions are added to each other first
};

// For use by one thread at a time; calls of different threads must not overlap, and need an order that all ranks share.
// Every collective throws MachineError, with rank and host, where another rank has ended or gives no sign of life
// within the job's ddp_timeout. No collective can be called after that.
class Peers {
 public:
  Peers() = default;
  virtual ~Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // This rank, in [0, size()).
  [[nodiscard]] virtual int rank() const = 0;
  // The number of ranks, at least 2.
  [[nodiscard]] virtual int size() const = 0;
  // The host's name of a rank.
  [[nodiscard]] virtual std::string_view host(int rank) const = 0;

  // The operands of the following are in the memory of the ranks' devices, which is the host's unless a device has its
  // own (ops/collectives/device_peers.h).
  //
  // Adds the contributions of ranks 0 to contributors - 1 to this rank's part, in order of rank (a reduce-scatter whose
  // bits do not depend on an algorithm): with the cut's begin(rank()),
  //   part[i] = ((part[i] + whole_0[begin + i]) + whole_1[begin + i]) + ...
  // With order.together = t > 1, group after group of t ranks, of which the last may have fewer contributors:
  //   part[i] = (part[i] + ((0 + whole_0[begin + i]) + ... + whole_t-1[begin + i])) + ((0 + whole_t[begin + i]) + ...
  // so that one sum for each group travels to others. `whole` is this rank's contribution; its values are not read
  // where rank() >= contributors. `part` has room for count(rank()) elements at least; what is behind those stays. The
  // two do not overlap.
  // REQUIRES: 0 <= contributors <= size(); t divides size(); `whole` has the cut's elements, the cut's ranks divide
  // size(), and cut and order are alike on all ranks. Ranks that have the same part have the same values in it.
  virtual void fold(std::span<const float> whole, std::span<float> part, const Cut& cut, const FoldOrder& order) = 0;

  // Sets `whole`, of elements of so many bytes, to the parts of all ranks of this rank's group (an all-gather). `part`
  // has count(rank()) elements at least, of which what is behind those is ignored. The two do not overlap. REQUIRES:
  // `whole` has the cut's elements, the cut's ranks divide size(), and cut and element are alike on all ranks.
  virtual void gather(std::span<const std::byte> part, std::span<std::byte> whole, const Cut& cut,
                      int64_t elem_bytes) = 0;

  // Gives piece i of `from`, of `ranks` equal pieces, to rank i of this rank's group of so many neighbours, and sets
  // piece i of `to` to what that one has given to this rank (an all-to-all). The two do not overlap. REQUIRES: `ranks`
  // divides size() and the bytes of both, which are alike on all ranks of the job.
  virtual void all_to_all(std::span<const std::byte> from, std::span<std::byte> to, int ranks) = 0;

  // Copy and clear bytes of the memory that the collectives above take, in order with them.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes);
  virtual void clear(std::byte* to, int64_t bytes);
  // Returns when the calls before it have done their work, which others may only have begun: operands must stay as they
  // are until then.
  virtual void finish() {}

  // Returns the messages of all ranks, by rank, valid until the next call. For what is small: agreement, metrics. The
  // messages may be of different lengths.
  [[nodiscard]] virtual std::span<const std::string> exchange(std::string_view mine) = 0;

  // Ends the job with this exit status on all ranks, whatever they are doing. Safe beside another thread's collective.
  [[noreturn]] virtual void abort(int status) = 0;
};

}  // namespace spillway
