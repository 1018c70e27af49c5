// The ways in which pieces of bytes travel between the ranks. Both calls are collectives: all ranks make the same ones,
// in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spillway {

using Bytes = std::span<const std::byte>;

// Ranks `first` to `first` + `size` - 1.
struct RankGroup {
  int first = 0, size = 1;
};

class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // The most bytes that a rank may give to each other rank, and to all of them, in one call. Alike on all ranks.
  [[nodiscard]] virtual int64_t max_piece_bytes() const = 0;
  [[nodiscard]] virtual int64_t max_common_bytes() const = 0;

  // Gives out[i] to rank i; returns by rank what that gave to this one, valid until the next call. The entry of this
  // rank is neither read nor set. REQUIRES: in_bytes[i] is the size of rank i's piece for this one.
  [[nodiscard]] virtual std::span<const std::byte* const> all_to_all(std::span<const Bytes> out,
                                                                     std::span<const int64_t> in_bytes) = 0;
  // Gives `mine` to the ranks of a group that has this one; otherwise the same, where in_bytes is 0 for all others.
  [[nodiscard]] virtual std::span<const std::byte* const> all_gather(Bytes mine, std::span<const int64_t> in_bytes,
                                                                     RankGroup group) = 0;
};

// The facts of the job that transports need.
struct TransportFacts {
  int rank = 0, size = 1;
  double timeout_seconds = 0;
  std::vector<std::string> hosts;  // by rank
};

}  // namespace spillway
