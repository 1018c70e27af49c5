// The part that a rank has of a micro-batch where neighbouring ranks share each (context_parallel_size): rows of its
// streams, and addends of its loss.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dist/peers.h"
#include "graph/graph.h"
#include "infer/batch.h"
#include "model/column.h"
#include "tensor/view.h"

namespace spillway::train {

// Not thread-safe. Where ranks share nothing it does what one rank does. Otherwise agree() and add_up() are collective:
// every rank of the job calls them in the same order, while no program runs.
class StreamShare {
 public:
  // `ranks` neighbours share each micro-batch; a divisor of the number of peers, which are null for one rank. Borrowed.
  StreamShare(Peers* peers, int64_t ranks) : peers_(peers), ranks_(ranks) {}

  static constexpr size_t kMaxStreams = 2;
  using Lengths = std::array<int64_t, kMaxStreams>;  // tokens, by stream

  [[nodiscard]] bool is_shared() const { return ranks_ > 1; }
  // Prepares for the micro-batches of a group, whose streams have so many tokens. Ranks exchange as many rows as each
  // other, so that each micro-batch has the rows of the longest of those that other ranks compute beside it, whatever
  // else is in the group.
  void agree(std::span<const Lengths> tokens);
  // Returns the rows of a stream of micro-batch number `in_group`, of so many tokens, that this rank computes: those
  // behind the last token belong to no sequence.
  [[nodiscard]] int64_t rows(size_t in_group, int stream, int64_t tokens) const;
  // Fills a column's value with its content, or the rows of it that are this rank's. Rows behind the last token repeat
  // that one, without its label. `tokens` is the axis of the micro-batch's tokens. REQUIRES: agree() was called for
  // the group.
  void fill(const Value& value, const BatchColumn& column, const infer::Batch& batch, size_t in_group, AxisId tokens,
            const TensorView& to) const;
  using Lists = std::vector<std::vector<double>*>;
  // Replaces numbers of this rank by their sums over the ranks that share a micro-batch, in order of rank. REQUIRES:
  // these have as many numbers.
  void add_up(const Lists& lists);
  // Replaces the numbers of this rank's rows by those of the rows of all these ranks, one rank behind the other.
  void collect(const Lists& lists);

 private:
  template <typename Take>
  void exchange(const Lists& lists, const Take& take);
  [[nodiscard]] int64_t place() const { return peers_->rank() % ranks_; }  // of this rank among those that share

  Peers* peers_;
  int64_t ranks_;
  std::vector<Lengths> rows_;  // of this rank, by micro-batch of the group
};

}  // namespace spillway::train
